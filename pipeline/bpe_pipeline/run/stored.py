"""Values as JSON stores them, without what has its default, and read back by their types.

Dataclasses, typed dictionaries and mappings are objects, tuples lists, locations texts; `Any` is not checked.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints, is_typeddict

from bpe_pipeline.base.errors import shown
from bpe_pipeline.storage import parse_location

COUNTER_FORMAT = 1  # of counters, which carry such values; part of what counting depends on
Value = TypeVar("Value")
Reader = Callable[[Any], Any]


def plain(value: Any) -> Any:
    """Return what to store of a value."""
    if is_dataclass(value):
        return {one.name: plain(own) for one in fields(value) if (own := getattr(value, one.name)) != one.default}
    if isinstance(value, tuple):
        values = list(value)
        for default in reversed(getattr(value, "_field_defaults", {}).values()):
            if values[-1] != default:
                break
            values.pop()
        return list(map(plain, values))
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def stored(kind: type[Value], value: object) -> Value:
    """Return a stored value of this type; names in it that the type does not have are ignored.

    Raises `KeyError` for a missing name, `TypeError` or `ValueError` for a value of another type.
    """
    read: Value = _reader(cast("Any", kind))(value)
    return read


@cache
def _reader(kind: Any) -> Reader:
    """Return what checks a value of this type and makes it."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if origin is UnionType:
        kinds = [one for one in inner if one is not NoneType]
        if set(kinds) <= {int, float, str} and len(kinds) > 1:
            return partial(_one_of, lambda value: type(value) in kinds)
        [read] = [parse_location] if Path in kinds else map(_reader, kinds)
        return lambda value: None if value is None else read(value)
    if origin is Literal:
        return partial(_one_of, lambda value: value in inner)
    if origin is list or (origin is tuple and inner[-1] is ...):
        read = _reader(inner[0])
        return lambda value: origin(map(read, _typed(list, value)))
    if origin is tuple:
        readers = list(map(_reader, inner))
        return lambda value: tuple(read(one) for read, one in zip(readers, _typed(list, value), strict=True))
    if origin in (dict, Mapping):
        of_value = _reader(inner[1])
        return lambda value: {inner[0](name): of_value(one) for name, one in _typed(dict, value).items()}
    if hasattr(kind, "_fields"):  # a named tuple
        readers = [_reader(one) for one in get_type_hints(kind).values()]
        return lambda value: kind(*(read(one) for read, one in zip(readers, _typed(list, value), strict=False)))
    if is_typeddict(kind):
        members = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
        return partial(_object, kind, members, set(members))
    if is_dataclass(kind):
        hints, own = get_type_hints(kind), fields(kind)
        needed = {one.name for one in own if (one.default, one.default_factory) == (MISSING, MISSING)}
        return partial(_object, kind, {one.name: _reader(hints[one.name]) for one in own}, needed)
    return partial(_typed, kind)


def _object(kind: Any, readers: Mapping[str, Reader], needed: set[str], value: object) -> Any:
    named, members = _typed(dict, value), {}
    for name, read in readers.items():
        if name in named or name in needed:
            try:
                members[name] = read(named[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return kind(**members)


def _one_of(is_member: Callable[[Any], bool], value: object) -> Any:
    if not is_member(value):
        raise ValueError(f"{shown(value)} is of another type")
    return value


def _typed(kind: type, value: Any) -> Any:
    if kind is float and type(value) is int:
        return value  # a count among measures stays a whole number: what is read back is shown as it was
    if type(value) is not kind:
        raise ValueError(f"{shown(value)} is not of type {kind.__name__}")
    return value
