"""The public names: each says what it is, down to the last method and property, and each stands in one list."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pipeline


def _public() -> Iterator[tuple[str, Any]]:
    """Every public function and class, and what can be called or read on the classes."""
    for name in pipeline.__all__:
        if name == "__version__":
            continue
        thing = getattr(pipeline, name)
        yield name, thing
        for kind in thing.__mro__ if inspect.isclass(thing) else ():
            if kind.__module__.startswith("pipeline."):
                yield from ((f"{name}.{own}", member) for own, member in vars(kind).items() if own[0] != "_")


def _described(thing: Any) -> bool:
    inner = getattr(thing, "func", None) or getattr(thing, "fget", None) or getattr(thing, "__func__", None) or thing
    return bool(inspect.getdoc(inner)) or not (callable(inner) or inspect.isdatadescriptor(inner))


def test_every_public_name_is_described() -> None:
    found = dict(_public())
    assert len(found) > 50
    assert [name for name, thing in found.items() if not _described(thing)] == []


def test_every_argument_of_a_public_function_has_a_type() -> None:
    bare = []
    for name, thing in _public():
        inner = getattr(thing, "__func__", thing)
        if inspect.isfunction(inner):
            hints = inner.__annotations__
            wanted = [*inspect.signature(inner).parameters, "return"]
            bare += [f"{name}: {argument}" for argument in wanted if argument not in {*hints, "self", "cls"}]
    assert bare == []


def test_the_list_of_public_names_is_that_of_their_homes() -> None:
    assert sorted(pipeline.__all__) == sorted([*pipeline._HOMES, "__version__"])
    text = Path(pipeline.__file__).read_text()
    told = re.findall(r"^    from (\S+) import (\S+) as \2$", text, re.MULTILINE)
    assert {name: home for home, name in told} == pipeline._HOMES
