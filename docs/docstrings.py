"""Public names as Markdown, from the objects themselves: signatures, and docstrings with lists of arguments."""

import inspect
import re
from collections.abc import Container, Iterator, Mapping
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.cli import commands
from bpe_pipeline.run.keywords import keywords_of
from bpe_pipeline.run.record import ARGUMENT

_PATH = "str | PathLike[str] | Remote"  # written AnyPath in the source
_SECTION = re.compile(r"^(Args|Keyword Args|Returns|Yields|Raises):\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(?! )([^:(]+?)(?: \((.*?)\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)
_CODE = re.compile(r"(`[^`]*`)")
_DEFAULT = re.compile(r"  \[default: (.*)\]$")
_WIDTH = 100  # of a signature in one line
_ALWAYS = ("progress", "**options")  # arguments that the page explains once
_ELSEWHERE = re.compile(r"as in `[\w-]+`\.?|as `(?:pipeline\.)?train\w*` (?:does|raises it)\.")
_EVERYWHERE = {
    *("InputError", "PatternError", "PipelineError", "RunDirectoryError", "StorageError", "TrainingError", "UsageError")
}
_SHORT = 3  # words of a result that a signature and a summary say already


def markdown_of(names: str) -> str:
    """Return the parts of public names, such as `train compat.ChatFormat`, in the reference; `exceptions` is a name."""
    return "\n\n".join(part for name in names.split() for part in _parts(name))


def _parts(name: str) -> Iterator[str]:
    if name == "exceptions":
        yield "## Exceptions"
        yield "\n".join(_exceptions())
        return
    module, _, own = f"bpe_pipeline.{name}".rpartition(".")
    thing = getattr(import_module(module), own)
    yield f"## {name}"
    yield from _described(own, thing, set() if own == "train" else {*_of_train()})
    if inspect.isclass(thing):
        yield from _members(thing)


@cache
def _of_train() -> set[str]:
    """Return the entries of `train`, which other functions repeat."""
    known = set[str]()
    list(_described("train", bpe_pipeline.train, known))
    return known


def _exceptions() -> Iterator[str]:
    for name in bpe_pipeline.__all__:
        thing = getattr(bpe_pipeline, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            kinds = [base.__name__ for base in thing.__bases__ if base not in (Exception, bpe_pipeline.PipelineError)]
            of = f" (a kind of {' and of '.join(f'`{kind}`' for kind in kinds)})" if kinds else ""
            yield f"- `{name}`{of}: {_text(inspect.getdoc(thing) or '')}"


def _members(kind: type[Any]) -> Iterator[str]:
    """Yield the properties of a class as a list, then its methods in the order of the source, each once."""
    public = {name: member for base in kind.__mro__ for name, member in vars(base).items() if name[0] != "_"}
    values = [(name, one) for name, one in public.items() if isinstance(one, property | cached_property)]
    if values:
        yield "**Attributes**"
        names: dict[Any, list[str]] = {}
        for name, one in values:
            names.setdefault(getattr(one, "fget", None) or getattr(one, "func", None), []).append(f"`{name}`")
        listed = [(", ".join(alike), _type(get, "return"), get.__doc__ or "") for get, alike in names.items()]
        yield "\n".join(f"- {alike} (`{kind}`): {_text(said)}" for alike, kind, said in listed)
    if (first := kind.__bases__[0]).__name__ in compat.__all__:
        yield f"Its methods are those of [`{first.__name__}`](#{f'compat{first.__name__}'.lower()})."
        return
    shown: dict[Any, list[str]] = {}
    for name, member in public.items():
        if inspect.isfunction(function := getattr(member, "__func__", member)):
            shown.setdefault(function, []).append(name)
    known: set[str] = set()  # entries of earlier methods
    yield "**Methods**"
    yield "\n".join(_brief(function, names, known) for function, names in shown.items())


def _brief(function: Any, also: list[str], known: set[str]) -> str:
    """Return a method in one line: its arguments without types, what it does, and entries that are not known."""
    names, keyword_only = [], False
    for one in list(inspect.signature(function).parameters.values())[1:]:
        names += ["*"] if one.kind is one.KEYWORD_ONLY and not keyword_only else []
        keyword_only = keyword_only or one.kind is one.KEYWORD_ONLY
        stars = "**" if one.kind is one.VAR_KEYWORD else ""
        names.append(stars + one.name if one.default is one.empty else f"{one.name}={one.default!r}")
    text, own = (inspect.getdoc(function) or "") + "\n", function.__name__
    others = [f"`{name}`" for name in also if name != own]
    said = [f"(Also as {' and '.join(others)}.)"] if others else []
    said += _paragraphs(_EXAMPLE.sub("", _SECTION.sub("", text)))
    for title, content in _SECTION.findall(text):
        said += [line for line in _listed(content, ()) if title in ("Args", "Raises") and line not in known]
    known.update(said)
    return f"- `{own}({', '.join(names)})`: {' '.join(said)}"


def _described(name: str, thing: Any, known: set[str]) -> Iterator[str]:
    """Yield a signature and the parts of a docstring, without entries that are known, and add its own to them.

    Of a function of a command, but for `train`, only the first paragraph: the command's page and help have the rest.
    """
    yield f"```python\n{_signature(name, thing)}\n```"
    text = (inspect.getdoc(thing) or "") + "\n"
    short = name != "train" and name in _functions_of_commands()
    rest = _SECTION.sub("", text)
    if short:
        rest = "\n\n".join([text.partition("\n")[0], *(one[0] for one in _EXAMPLE.finditer(rest))])
    position = 0
    for example in _EXAMPLE.finditer(rest):
        yield from _paragraphs(rest[position : example.start()])
        yield f"```pycon\n{example[0]}\n```"
        position = example.end()
    yield from _paragraphs(rest[position:])
    command, options = _options_of(name, thing)
    for title, content in _SECTION.findall(text):
        if title == "Keyword Args":
            yield from _keywords(name, content, command, options)
        elif title in ("Returns", "Yields"):
            if len(content.split()) > _SHORT and (said := _text(content)) not in known:
                known.add(said)
                yield f"**{title}** {said}"
        elif not (short and title == "Args") and (
            lines := [line for line in _listed(content, options) if line not in known]
        ):
            known.update(lines)
            if len(lines) == 1:
                yield f"**{title}** {lines[0]}"
            else:
                yield f"**{title}**"
                yield "\n".join(f"- {line}" for line in lines)
    if options and "Keyword Args:" not in text:
        yield f"**Options** of [`{command}`](commands/{command}.md)."


def _options_of(name: str, thing: Any) -> tuple[str, dict[str, str]]:
    """Return the command that has the options of a function, or "", and the flags of its keywords.

    That is the command whose function it is, or else the first one but `train` that has one of its options.
    """
    if not hasattr(thing, "takes"):
        return "", {}
    records = {key: one for key, one in keywords_of(thing.takes).items() if one.spelling.startswith("--")}
    flags = {key: one.spelling for key, one in records.items() if one.group != ARGUMENT}
    for command in commands.declared().values():
        if command.python == name:
            return command.name, flags
    train = keywords_of(bpe_pipeline.train.takes)  # type: ignore[attr-defined]
    own = {
        key: flag for key, flag in flags.items() if key not in train and key not in inspect.signature(thing).parameters
    }
    for command in commands.declared().values():
        theirs = {key: one.help for key, one in keywords_of(command.takes).items()}
        if own and all(records[key].help == theirs.get(key) for key in own):
            return command.name, own
    return "", {}


def _paragraphs(text: str) -> Iterator[str]:
    yield from (_text(paragraph) for paragraph in text.split("\n\n") if paragraph.strip())


def _text(text: str) -> str:
    """Return words in one line, without what Markdown would read as its own outside of code."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*") for part in parts)


def _listed(section: str, options: Container[str]) -> list[str]:
    """Return a line for each entry of a section that says something of its own: its name, its type and that."""
    found = []
    for name, kind, said in _ENTRY.findall(section):
        if name.strip("`") not in (*_ALWAYS, *_EVERYWHERE) and name not in options and not _ELSEWHERE.fullmatch(said):
            found.append(f"`{name}`{f' (`{kind}`)' if kind else ''}: {_text(said)}")
    return found


def _keywords(name: str, section: str, command: str, options: Mapping[str, str]) -> Iterator[str]:
    """Yield the keywords of a function: those of its command and of `train` are only named, others are described."""
    entries = _ENTRY.findall(section)
    of_train = _ENTRY.findall(f"{inspect.getdoc(bpe_pipeline.train)}\n".split("Keyword Args:\n")[1])
    same = [one for one in entries if one in of_train and name != "train"]
    own = [one for one in entries if one not in same]
    named = [text for one in own if one[0] in options and (text := _renamed(one[0], options[one[0]]))]
    if command:
        link = f"**Options** of [`{command}`](commands/{command}.md)"
        yield f"{link}; by other names: {', '.join(named)}." if named else f"{link}."
    if same and name not in _functions_of_commands():
        without = [f"`{one[0]}`" for one in of_train if one not in same]
        listed = [f"`{one[0]}`" for one in same]
        short = f"all but {', '.join(without)}" if without else "all"
        yield f"**Options** of [`train`](python.md#train): {short if len(without) < len(same) else ', '.join(listed)}."
    if described := [one for one in own if one[0] not in options]:
        yield "\n".join(f"- `{key}` (`{kind}`): {_text(_DEFAULT.sub('', said))}" for key, kind, said in described)


def _functions_of_commands() -> set[str]:
    return {command.python for command in commands.declared().values()}


def _renamed(key: str, flag: str) -> str:
    """Return a keyword with its flag if that has another name, else nothing."""
    return "" if flag == f"--{key.replace('_', '-')}" else f"`{key}` (`{flag}`)"


def _signature(name: str, thing: Any) -> str:
    function = thing.__init__ if inspect.isclass(thing) else thing
    listed, keyword_only = [], False
    for one in inspect.signature(function).parameters.values():
        if one.name in ("self", "cls") or (one.name == "progress" and hasattr(thing, "takes")):
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
    return re.sub(r"[a-z0-9_.]+[.](?=[A-Z])", "", text).replace(_PATH, "AnyPath")
