"""Keywords of public functions: their types and their descriptions, from the records of options."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal, TypeVar, get_args

from bpe_pipeline.run.options import FLAGS, Values
from bpe_pipeline.run.record import ARGUMENT, Record
from bpe_pipeline.storage import Remote

AnyPath = str | PathLike[str] | Remote
Function = TypeVar("Function", bound=Callable[..., Any])


def keyword_type(record: Record) -> Any:
    """Return the type of what an option's reader takes from Python."""
    if record.keyword is not None or record.kind is bool:
        return record.keyword or bool
    kinds = {record.kind, *get_args(record.kind)}
    kind: Any
    if record.choices:
        kind = Literal[record.choices]
    elif record.is_path:
        kind = AnyPath | Sequence[AnyPath] if record.several else AnyPath
    elif record.several:
        kind = str | Sequence[str]
    else:
        kind = float | str if float in kinds else int | str if int in kinds else str
    return kind | None if record.default is None else kind


def keywords_of(kind: type[Values]) -> dict[str, Record]:
    """Return the options of a value that are keywords of Python."""
    return {name: record for name, record in kind.records.items() if not record.command_only}


def without_flags(text: str) -> str:
    """Return a text with names of keywords in place of flags."""
    return re.sub("--[a-z][a-z-]*", lambda flag: FLAGS.get(flag[0], flag[0][2:].replace("-", "_")), text)


def keyword_lines(kind: type[Values], without: Sequence[str] = ()) -> Iterator[str]:
    """Yield a line for each keyword, with its type and its default; without: names that have lines of their own."""
    for name, record in keywords_of(kind).items():
        if name in without or record.group == ARGUMENT:
            continue
        default = "" if record.default is None else f"  [default: {record.default!r}]"
        yield f"    {name} ({type_text(keyword_type(record))}): {without_flags(record.help)}{default}"
        if record.without:
            yield f"    no_{name} (bool): {record.without}  [default: False]"


def type_text(hint: Any) -> str:
    """Return a type as one writes it, without names of modules."""
    return re.sub(r"[a-z_.]+[.](?=[A-Z])", "", inspect.formatannotation(hint))
