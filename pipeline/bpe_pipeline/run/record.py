"""The record of an option: all that is said of it, in the field of a value."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from typing import Any

ARGUMENT = ""  # the group of what has no flag: words by their position
OWN = "Options"  # flags that belong to one command
GROUPS = (  # of the help
    *("Input", "Vocabulary", "Special tokens", "Shards", "Order and split", "Packing", "Chat data", "Output"),
    *("Resources", "Other"),
)
CALL = "call"  # the stage of what one call is about: no configuration file has it


@dataclass(frozen=True)
class Record:
    """All that is said of an option, or of an argument.

    flag: its spelling where that is not its name; one spelt as its name is no flag, but configuration files and Python
    have it. without: of a list, the help of `--no-NAME`, which starts from none. keyword: its type in Python where that
    does not follow from kind. shown: the default in the help where that is another text; "" for none. alone: what the
    flag means without a value. examples: names that a shell completes. words: whether its flag takes all words up to
    the next flag. command_only: whether Python has no such keyword.
    """

    name: str
    kind: Any
    default: Any
    group: str
    stage: str
    parse: Callable[[object], Any]
    help: str
    metavar: str
    advanced: bool = False
    flag: str = ""
    short: str = ""
    without: str = ""
    keyword: Any = None
    shown: str | None = None
    alone: str = ""
    examples: Callable[[], Iterable[str]] | None = None
    words: bool = False
    command_only: bool = False

    @property
    def spelling(self) -> str:
        """Its flag, or what help and messages call an argument."""
        if self.group == ARGUMENT:
            return str(re.findall("[A-Z|]+", self.metavar)[-1])
        return self.flag or "--" + self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING

    @property
    def several(self) -> bool:
        """Whether it is a list, to which each repetition of its flag adds."""
        return "tuple[" in str(self.kind) or "Mapping[" in str(self.kind)

    @property
    def is_path(self) -> bool:
        """Whether it is opened by the bytes that it has, and a shell completes files."""
        return self.name == "inputs" or "Location" in str(self.kind)

    @property
    def choices(self) -> tuple[str, ...]:
        """The names of which it is one; none if it can be more than names."""
        return self.parse.args[0] if isinstance(self.parse, partial) else ()

    @property
    def default_text(self) -> str:
        """The default as the help shows it."""
        first = self.default[0] if self.default and isinstance(self.default, tuple) else self.default
        return str(first) if self.shown is None and isinstance(first, str | int | float) else self.shown or ""


def option(
    group: str, stage: str, default: Any, parse: Callable[[object], Any], help_text: str, metavar: str = "", **rare: Any
) -> Any:
    """Return the field of an option, with all of its record but name, kind and default."""
    said = {"group": group, "stage": stage, "parse": parse, "help": help_text, "metavar": metavar}
    return field(default=default, metadata=said | rare)


IN_GROUPS = [partial(option, group) for group in GROUPS]
flag = partial(option, OWN, CALL)


def argument(
    metavar: str,
    parse: Callable[[object], Any],
    help_text: str,
    default: Any = MISSING,
    stage: str = CALL,
    **rare: Any,
) -> Any:
    """Return the field of a word without a flag."""
    return option(ARGUMENT, stage, default, parse, help_text, metavar, **rare)


def as_in(kind: type[Any], name: str, **other: Any) -> Any:
    """Return the field of an option that another value has, too. other: of its record, what differs."""
    [found] = (one for one in fields(kind) if one.name == name)
    default = other.pop("default", found.default)
    return field(default=default, metadata={**found.metadata, **other})


_RECORDS: dict[type[Any], Mapping[str, Record]] = {}  # of the values that were asked for


def records_of(kind: type[Any]) -> Mapping[str, Record]:
    """Return the records of the options that a value has, by name."""
    if kind not in _RECORDS:
        of_fields = (one for one in fields(kind) if one.metadata)
        _RECORDS[kind] = {one.name: Record(one.name, one.type, one.default, **one.metadata) for one in of_fields}
    return _RECORDS[kind]
