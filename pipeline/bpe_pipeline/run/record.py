"""Options: all that is said of one is its record, the line of a field; a value holds those that were set together."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform, get_args, get_origin

from bpe_pipeline.run.stored import plain

Kind = TypeVar("Kind", bound="Values")
ARGUMENT = ""  # the group of what has no flag: words by their position
OWN = "Options"  # flags that belong to one command
GROUPS = (  # of the help
    *("Input", "Vocabulary", "Special tokens", "Shards", "Order and split", "Packing", "Chat data", "Output"),
    *("Resources", "Other"),
)


class Scope(Enum):
    """What depends on an option, and is stored with it.

    CALL: what one call is about; no configuration file has it, and no other value takes it. RUN: nothing, it says how
    work is done. COUNT: the counts of a run. MIXTURE: their weights. MERGE: the merges of a run. VOCABULARY: how many
    of these a tokenizer has. SPECIAL: one tokenizer of a run. ENCODE: shards. CHAT: rows of chat data.

    What is stored binds: other values are refused until --overwrite.
    """

    CALL = auto()
    RUN = auto()
    COUNT = auto()
    MIXTURE = auto()
    MERGE = auto()
    VOCABULARY = auto()
    SPECIAL = auto()
    ENCODE = auto()
    CHAT = auto()


@dataclass(eq=False)
class Record:
    """All that is said of an option, or of an argument; of a value it returns what was set, or the default.

    read: takes a value of any source, where its type does not say how it is read. flag: its spelling where that is not
    its name; one spelt as its name is no flag, but configuration files and Python have it. without: of a list, the help
    of `--no-NAME`, which starts from none. keyword: its type in Python where that does not follow from kind. shown: the
    default in the help where that is another text; "" for none. alone: what the flag means without a value. examples:
    names that a shell completes. words: whether its flag takes all words up to the next flag. command_only: whether
    Python has no such keyword.
    """

    group: str
    default: Any
    help: str
    metavar: str = ""
    scope: Scope = Scope.RUN
    read: Callable[[object], Any] | None = None
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
    name: str = ""
    kind: Any = None

    def __set_name__(self, owner: type["Values"], name: str) -> None:
        self.name, self.kind = name, owner.__annotations__[name]

    def __get__(self, options: "Values | None", _: type["Values"]) -> Any:
        return self if options is None else vars(options).get(self.name, self.default)

    def __set__(self, options: "Values", value: object) -> None:
        raise AttributeError(f"cannot assign to option {self.name!r}")

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
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def default_text(self) -> str:
        """The default as the help shows it."""
        first = self.default[0] if self.default and isinstance(self.default, tuple) else self.default
        return str(first) if self.shown is None and isinstance(first, str | int | float) else self.shown or ""


option: Callable[..., Any] = Record  # as type checkers see it, the field has the type of what is set
IN_GROUPS = [partial(option, group) for group in GROUPS]
flag = partial(option, OWN, scope=Scope.CALL)


def argument(metavar: str, help_text: str, default: Any = MISSING, **rare: Any) -> Any:
    """Return the field of a word without a flag."""
    return option(ARGUMENT, default, help_text, metavar, **{"scope": Scope.CALL, **rare})


def but(field: Any, **other: Any) -> Any:
    """Return the field of another value with what differs in its record."""
    return replace(field, **other)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Values:
    """Options that were set together, and the defaults of others; sizes in bytes, times in seconds.

    records: of the options that it has, by name, those of its bases first. What a configuration file says for other
    commands is carried along: `to` passes it on.
    """

    records: ClassVar[Mapping[str, Record]]

    def __init_subclass__(cls) -> None:
        fields = (vars(base).items() for base in reversed(cls.__mro__))
        cls.records = {name: getattr(cls, name) for own in fields for name, one in own if isinstance(one, Record)}

    def __init__(self, **explicit: Any) -> None:
        if missing := [name for name, one in self.records.items() if one.required and name not in explicit]:
            raise TypeError(f"{type(self).__name__} needs {missing[0]}")
        vars(self).update(explicit)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.values == other.values

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"

    @property
    def explicit(self) -> Mapping[str, Any]:
        """What was set, but for what one call is about."""
        of_call = {name for name, record in self.records.items() if record.scope is Scope.CALL}
        return {name: value for name, value in vars(self).items() if name not in of_call}

    @property
    def values(self) -> dict[str, Any]:
        """All options by name."""
        return {name: getattr(self, name) for name in self.records}

    def replace(self, **changes: Any) -> Self:
        """Return these options with others."""
        return type(self)(**{**vars(self), **changes})

    def to(self, kind: type[Kind], **changes: Any) -> Kind:
        """Return those of these options, as far as they were set, that another value has."""
        return kind(**{name: value for name, value in self.explicit.items() if name in kind.records} | changes)

    def in_scope(self, *scopes: Scope) -> dict[str, Any]:
        """Return the options of these scopes as plain JSON values."""
        return {name: plain(getattr(self, name)) for name, one in self.records.items() if one.scope in scopes}
