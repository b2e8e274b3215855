"""The record of an option: all that is said of it, in the field of a value."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

GROUPS = (  # of the help
    *("Input", "Vocabulary", "Special tokens", "Shards", "Order and split", "Packing", "Chat data", "Output"),
    *("Resources", "Other"),
)


@dataclass(frozen=True)
class Record:
    """All that is said of an option.

    flag: its spelling where that is not its name; INPUT is no flag, and neither is one spelt as its name, which
    configuration files and Python have. without: of a list, the help of `--no-NAME`, which starts from none. keyword:
    its type in Python where that does not follow from kind.
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
    keyword: str = ""

    @property
    def spelling(self) -> str:
        """Its flag."""
        return self.flag or "--" + self.name.replace("_", "-")

    @property
    def several(self) -> bool:
        """Whether it is a list, to which each repetition of its flag adds."""
        return "tuple[" in str(self.kind)

    @property
    def choices(self) -> tuple[str, ...]:
        """The names of which it is one; none if it can be more than names."""
        return self.parse.args[0] if isinstance(self.parse, partial) else ()


def option(
    group: str, stage: str, default: Any, parse: Callable[[object], Any], help_text: str, metavar: str = "", **rare: Any
) -> Any:
    """Return the field of an option, with all of its record but name, kind and default."""
    said = {"group": group, "stage": stage, "parse": parse, "help": help_text, "metavar": metavar}
    return field(default=default, metadata=said | rare)


IN_GROUPS = [partial(option, group) for group in GROUPS]


def as_in(kind: type[Any], name: str, **other: str) -> Any:
    """Return the field of an option that another value has, too. other: of its record, what differs."""
    [found] = (one for one in fields(kind) if one.name == name)
    return field(default=found.default, metadata={**found.metadata, **other})


def records_of(kind: type[Any]) -> dict[str, Record]:
    """Return the records of the options that a value has, by name."""
    return {one.name: Record(one.name, one.type, one.default, **one.metadata) for one in fields(kind) if one.metadata}
