"""Make `pipeline/bpe_pipeline/__init__.pyi`, the public names for editors and type checkers: `python
tests/support/interface.py`."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import bpe_pipeline
from bpe_pipeline.run.keywords import keyword_type, keywords_of, type_text

HOME = Path(bpe_pipeline.__file__).with_suffix(".pyi")
_HEAD = '''"""The public names, for editors and type checkers; sizes are numbers of bytes or texts such as "64MiB".

`python tests/support/interface.py` writes this file.
"""
'''
_PATH = "str | PathLike[str] | Remote"
_STANDARD = {
    **dict.fromkeys(("Iterable", "Iterator", "Mapping", "Sequence"), "collections.abc"),
    **dict.fromkeys(("Any", "Literal", "overload"), "typing"),
    "AnyPath": "bpe_pipeline.run.keywords",
    "Path": "pathlib",
    "PathLike": "os",
}


def _classes(hint: Any) -> set[type[Any]]:
    """Find the classes that a type names."""
    if get_origin(hint) is not None and "Literal" not in str(get_origin(hint)):
        return {found for one in (get_origin(hint), *get_args(hint)) for found in _classes(one)}
    return {hint} if inspect.isclass(hint) and hint.__module__.startswith("bpe_pipeline") else set()


def _text(hint: Any) -> str:
    text = type_text(hint).replace(_PATH, "AnyPath")
    return re.sub(r"'([^']*)'", r'"\1"', "None" if text == "NoneType" else text)


def _function(name: str, function: Any, imports: dict[str, str]) -> str:
    """Return the declaration of a function with all of its keywords."""
    hints = get_type_hints(function)
    for hint in hints.values():
        imports.update({found.__name__: found.__module__ for found in _classes(hint)})
    parts, keyword_only = [], False
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.VAR_KEYWORD:
            continue
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        default = "" if one.default is one.empty else " = ..."
        parts.append(f"{one.name}: {_text(hints[one.name])}{default}")
    listed = inspect.signature(function).parameters
    more = {key: one for key, one in keywords_of(function.takes).items() if key not in listed and one.group}
    parts += ["*"] if more and not keyword_only else []
    for key, record in more.items():
        parts.append(f"{key}: {_text(keyword_type(record))} = ...")
        parts += [f"no_{key}: bool = ..."] if record.without else []
    return "\n".join(_overloads(name, parts, hints["return"]))


def _overloads(name: str, parts: list[str], returned: Any) -> Iterator[str]:
    """Yield the declaration; of a function that returns one thing with an output and another without it, one each."""
    kinds, output = get_args(returned), [part for part in parts if part.startswith("output:")]
    if not isinstance(returned, UnionType) or Path in kinds:
        yield _declaration(name, parts, returned)
        return
    for one, kind in (("output: AnyPath", kinds[0]), ("output: None = ...", kinds[1])):
        yield "@overload\n" + _declaration(name, [one if part in output else part for part in parts], kind)


def _declaration(name: str, parts: list[str], returned: Any) -> str:
    return f"def {name}(\n    " + ",\n    ".join(parts) + f",\n) -> {_text(returned)}: ..."


def source() -> str:
    """Return the file as it should be."""
    imports: dict[str, str] = {}
    functions, again = [], []
    for name in sorted(set(bpe_pipeline.__all__) - {"__version__"}):
        thing = getattr(bpe_pipeline, name)
        if hasattr(thing, "takes"):
            functions.append(_function(name, thing, imports))
        else:
            again.append(f"from {thing.__module__} import {thing.__name__} as {name}")
            imports.pop(name, None)
    text = "\n\n".join(functions)
    imports |= {name: home for name, home in _STANDARD.items() if re.search(rf"\b{name}\b", text)}
    known = {line.rpartition(" ")[2] for line in again}
    lines = [f"from {home} import {name}" for name, home in imports.items() if name not in known]
    names = "".join(f'    "{name}",\n' for name in bpe_pipeline.__all__)
    return (
        f"{_HEAD}\n" + "\n".join(sorted([*lines, *again])) + f"\n\n__version__: str\n__all__ = [\n{names}]\n\n{text}\n"
    )


if __name__ == "__main__":
    HOME.write_text(source(), encoding="utf-8")
