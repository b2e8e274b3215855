"""Public names as Markdown, from the objects themselves: signatures, and docstrings with lists of arguments."""

import inspect
import re
from collections.abc import Iterator
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import click

import pipeline
from pipeline.cli import all_commands
from pipeline.run.keywords import without_flags

_PATH = "str | PathLike[str] | Remote"  # written AnyPath in the source
_SECTION = re.compile(r"^(Args|Keyword Args|Returns|Yields|Raises):\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(?! )([^:(]+?)(?: \((.*?)\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)
_CODE = re.compile(r"(`[^`]*`)")
_WIDTH = 100  # of a signature in one line
_ALWAYS = ("progress", "**options")  # arguments that the page explains once
_ELSEWHERE = re.compile(r"as in `\w+`\.?|as `(?:pipeline\.)?train\w*` (?:does|raises it)\.")
_SHORT = 3  # words of a result that a signature and a summary say already


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
    known: set[str] = set()  # entries of earlier methods
    for function, names in shown.items():
        own = function.__name__
        yield f"### {kind.__name__}.{own}"
        if others := [f"`{name}`" for name in names if name != own]:
            yield f"Also as {' and '.join(others)}."
        if inspect.getdoc(function) == inspect.getdoc(getattr(pipeline, own, None)):
            yield f"As [`{own}`](#{own})."
        else:
            yield from _described(own, function, known)


def _described(name: str, thing: Any, known: set[str] | None = None) -> Iterator[str]:
    """Yield a signature and the parts of a docstring, without entries that are known, and add its own to them."""
    known = set() if known is None else known
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
        if title == "Keyword Args":
            yield from _keywords(name, content)
        elif title in ("Returns", "Yields"):
            if len(content.split()) > _SHORT:
                yield f"**{title}** {_text(content)}"
        elif lines := [line for line in _listed(content) if line not in known]:
            known.update(lines)
            yield f"**{title}**"
            yield "\n".join(f"- {line}" for line in lines)


def _paragraphs(text: str) -> Iterator[str]:
    yield from (_text(paragraph) for paragraph in text.split("\n\n") if paragraph.strip())


def _text(text: str) -> str:
    """Return words in one line, without what Markdown would read as its own outside of code."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*") for part in parts)


def _listed(section: str) -> list[str]:
    """Return a line for each entry of a section that says something of its own: its name, its type and that."""
    found = []
    for name, kind, said in _ENTRY.findall(section):
        if name.strip("`") not in _ALWAYS and not _ELSEWHERE.fullmatch(said):
            found.append(f"`{name}`{f' (`{kind}`)' if kind else ''}: {_text(said)}")
    return found


def _keywords(name: str, section: str) -> Iterator[str]:
    """Yield the keywords of a function.

    Those of `train` are only named, options of the command have types and defaults, as in a signature, and what they
    do is on its page; others are described.
    """
    own, of_train = (
        _ENTRY.findall(section),
        _ENTRY.findall(f"{inspect.getdoc(pipeline.train)}\n".split("Keyword Args:\n")[1]),
    )
    same = [one for one in own if one in of_train and name != "train"]
    others = [one for one in own if one not in same]
    yield "**Keyword Args**"
    if same:
        without = [f"`{one[0]}`" for one in of_train if one not in same]
        listed = [f"`{one[0]}`" for one in same]
        named = f"all but {', '.join(without)}" if without else "all"
        yield f"As of [`train`](#train): {named if len(without) < len(same) else ', '.join(listed)}."
    texts, options, described = _texts_of_options(), [], []
    for keyword, kind, said in others:
        text, bracket, default = said.partition("  [default: ")
        shown = kind.replace(_PATH, "AnyPath") + (f" = {default[:-1]}" if bracket else "")
        if text in texts:
            options.append(f"{keyword}: {shown}")
        else:
            described.append(f"- `{keyword}` (`{shown}`): {_text(text)}")
    if options:
        yield "```text\n" + "\n".join(options) + "\n```"
    if described:
        yield "\n".join(described)


@cache
def _texts_of_options() -> set[str]:
    """Return what the help of the commands says of their options, by names of keywords."""
    commands = all_commands().values()
    flags = (flag for one in commands for group in one.groups(click.Context(one)).values() for flag in group)
    return {without_flags(flag.help or "").partition("  [default: ")[0] for flag in flags}


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
