"""Values as JSON stores them, without what has its default, and read back by their types."""

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from bpe_pipeline.storage import parse_location

COUNTER_FORMAT = 1  # of counters, which carry such values; part of what counting depends on
Value = TypeVar("Value")


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

    Raises `ValueError` that names the field which is missing or of another type.
    """
    import msgspec

    try:
        return msgspec.convert(value, kind, dec_hook=_location)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        raise ValueError(f"{where.strip('`$.')}: {what}" if where else what) from None


def _location(_: type, value: object) -> Any:
    """Read the only type of ours that is no dataclass."""
    return parse_location(value)
