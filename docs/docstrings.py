"""Public names as Markdown, from the objects themselves: signatures, and docstrings with lists of arguments."""

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

import pipeline

_PATH = "str | PathLike[str] | Remote"  # written AnyPath in the source
_SECTION = re.compile(r"^(Args|Keyword Args|Returns|Yields|Raises):\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(?! )([^:(]+?)(?: \((.*?)\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)
_CODE = re.compile(r"(`[^`]*`)")
_WIDTH = 100  # of a signature in one line


def markdown_of(name: str) -> str:
    """Return a public name's part of the reference, such as that of `train` or `compat.ChatFormat`; or `exceptions`."""
    if name == "exceptions":
        return "\n".join(_exceptions())
    module, _, own = f"pipeline.{name}".rpartition(".")
    thing = getattr(import_module(module), own)
    parts = [f"## {name}", *_described(own, thing)]
    if inspect.isclass(thing):
        parts += _members(thing)
    return "\n\n".join(parts)


def _exceptions() -> Iterator[str]:
    for name in pipeline.__all__:
        thing = getattr(pipeline, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            kinds = [base.__name__ for base in thing.__bases__ if base is not Exception]
            of = f" (a kind of {' and of '.join(f'`{kind}`' for kind in kinds)})" if kinds else ""
            yield f"- `{name}`{of}: {_text(inspect.getdoc(thing) or '')}"


def _members(kind: type[Any]) -> Iterator[str]:
    """Yield the properties of a class as a list, then its methods in the order of the source, each once."""
    public = {name: member for base in kind.__mro__ for name, member in vars(base).items() if name[0] != "_"}
    values = [(name, one) for name, one in public.items() if isinstance(one, property | cached_property)]
    if values:
        yield "**Attributes**"
        getters = [(name, getattr(one, "fget", None) or getattr(one, "func", None)) for name, one in values]
        yield "\n".join(f"- `{name}` (`{_type(get, 'return')}`): {_text(get.__doc__ or '')}" for name, get in getters)
    shown: dict[Any, list[str]] = {}
    for name, member in public.items():
        if inspect.isfunction(function := getattr(member, "__func__", member)):
            shown.setdefault(function, []).append(name)
    for function, names in shown.items():
        own = function.__name__
        yield f"### {kind.__name__}.{own}"
        if others := [f"`{name}`" for name in names if name != own]:
            yield f"Also as {' and '.join(others)}."
        yield from _described(own, function)


def _described(name: str, thing: Any) -> Iterator[str]:
    """Yield a signature and the parts of a docstring."""
    yield f"```python\n{_signature(name, thing)}\n```"
    text = (inspect.getdoc(thing) or "") + "\n"
    rest = _SECTION.sub("", text)
    position = 0
    for example in _EXAMPLE.finditer(rest):
        yield from _paragraphs(rest[position : example.start()])
        yield f"```pycon\n{example[0]}\n```"
        position = example.end()
    yield from _paragraphs(rest[position:])
    for title, content in _SECTION.findall(text):
        yield f"**{title}**"
        lines = [] if title in ("Returns", "Yields") else _listed(content)
        if title == "Keyword Args" and name != "train":
            lines = _but_those_of_train(lines)
        yield "\n".join(f"- {line}" for line in lines) or _text(content)


def _paragraphs(text: str) -> Iterator[str]:
    yield from (_text(paragraph) for paragraph in text.split("\n\n") if paragraph.strip())


def _text(text: str) -> str:
    """Return words in one line, without what Markdown would read as its own outside of code."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*") for part in parts)


def _listed(section: str) -> list[str]:
    """Return a line for each entry of a section: its name, its type and what is said of it."""
    found = []
    for name, kind, said in _ENTRY.findall(section):
        text, bracket, default = said.partition("  [default: ")
        shown = f" (`{kind.replace(_PATH, 'AnyPath')}`)" if kind else ""
        default = f" (default: `{default.removesuffix(']')}`)" if bracket else ""
        found.append(f"`{name}`{shown}: {_text(text)}{default}")
    return found


def _but_those_of_train(lines: list[str]) -> list[str]:
    """Return only the names of keywords that `train` has, too."""
    known = _listed(dict(_SECTION.findall(f"{inspect.getdoc(pipeline.train)}\n"))["Keyword Args"])
    same = [line.partition(" ")[0].removesuffix(":") for line in known if line in lines]
    listed = "all" if len(same) == len(known) else ", ".join(same)
    return [f"{listed}: as of [`train`](#train)"] * bool(same) + [line for line in lines if line not in known]


def _signature(name: str, thing: Any) -> str:
    function = thing.__init__ if inspect.isclass(thing) else thing
    listed, keyword_only = [], False
    for one in inspect.signature(function).parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            listed.append("*")
            keyword_only = True
        if one.kind is one.VAR_KEYWORD:
            listed.append(f"**{one.name}")
            continue
        default = "" if one.default is one.empty else f" = {one.default!r}"
        listed.append(f"{one.name}: {_type(function, one.name)}{default}")
    result = "" if inspect.isclass(thing) else f" -> {_type(function, 'return')}"
    line = f"{name}({', '.join(listed)}){result}"
    return line if len(line) <= _WIDTH else "\n    ".join([f"{name}(", *(f"{one}," for one in listed)]) + f"\n){result}"


def _type(function: Any, name: str) -> str:
    """Return the type of an argument or of the result, as in the source but for names of modules."""
    hint = function.__annotations__.get(name, Any)
    text = hint if isinstance(hint, str) else inspect.formatannotation(hint)
    return re.sub(r"[a-z_.]+[.](?=[A-Z])", "", text).replace(_PATH, "AnyPath")
