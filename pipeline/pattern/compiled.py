"""Patterns that are compiled: tables -> native kernel; and patterns in a row. What a worker needs to cut.

An automaton cuts exactly as the `regex` package does (on characters that both know), or there is none, and `regex`
itself cuts (`by_regex`).
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import _core
from pipeline.base.errors import InputError, PatternError
from pipeline.base.system import cached_property
from pipeline.pattern.by_regex import DEFAULT_TIMEOUT_S, cut_with_regex
from pipeline.pattern.classes import UNICODE_VERSION
from pipeline.pattern.normal_form import nfc_form
from pipeline.pattern.presets import SUPERWORD_PATTERNS

_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class AutomatonTables:
    """An automaton as plain bytes, for another process of this machine; `native()` takes a millisecond."""

    class_starts: bytes
    class_ids: bytes
    classes: int
    plain: bytes
    folded: bytes
    tentative: bytes
    provable: bytes
    ahead: bytes = b""
    variants: bytes = b""

    def native(self) -> _core.Automaton:
        """Make the automaton of the native core."""
        return _core.Automaton(*dataclasses.astuple(self))


@dataclass(frozen=True)
class CompiledPattern:
    """A pattern ready to cut; `automaton` is None where it runs on `regex`, for the reason in `refusal`."""

    name: str | None
    expression: str
    tables: AutomatonTables | None
    refusal: str | None
    unicode_version: str = UNICODE_VERSION
    timeout_s: int = DEFAULT_TIMEOUT_S  # of `regex`: for a document of a million characters or less
    nfc: bool = False  # whether counting puts text into NFC before it cuts it

    @property
    def shown(self) -> str:
        """The pattern in a message: its name, or its expression, of a long one the beginning."""
        of_superwords = {expression: name for name, expression in SUPERWORD_PATTERNS.items()}
        text = self.name or of_superwords.get(self.expression, self.expression)
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."

    @cached_property
    def automaton(self) -> _core.Automaton | None:
        """The native automaton, made at first use and shared after that; another process makes its own."""
        return self.tables.native() if self.tables else None

    @property
    def form(self) -> _core.NormalForm | None:
        """What puts text into a normal form before it is cut."""
        return nfc_form() if self.nfc else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "automaton"}

    def cut(self, text: str) -> list[str]:
        """Return the pieces of a document, in order; together they are the document. For small texts."""
        if self.automaton is None:
            return list(cut_with_regex(self.expression, text, self.timeout_s))
        return _pieces_between(text.encode(), self.automaton.cut(text.encode()))


@dataclass(frozen=True)
class PatternSequence(CompiledPattern):
    """At least two steps, each with an automaton, each of which cuts the pieces of the one before.

    It has no automaton of its own. `expression` lists those of the steps, a line each.
    """

    steps: tuple[CompiledPattern, ...] = ()

    def cut(self, text: str) -> list[str]:
        """Return the pieces of a document, in order; together they are the document."""
        return _pieces_between(text.encode(), self.ends(text.encode()))

    def ends(self, data: bytes) -> list[int]:
        """Return the end of each piece of a document, UTF-8, in bytes."""
        ends = [len(data)] if data else []
        for automaton in self._automata(data):
            ends = automaton.cut_within(data, ends)
        return ends

    def ends_of_part(self, data: bytes) -> tuple[list[int], int]:
        """Return the ends of the pieces that later text cannot change: those of which the first step is certain."""
        first, *others = self._automata(data)
        ends, rest = first.cut_part(data)
        for automaton in others:
            ends = automaton.cut_within(data, ends)
        return ends, rest

    def _automata(self, data: bytes) -> list[_core.Automaton]:
        if len(data) >> 32:
            raise InputError(
                f"a document of {len(data):,} bytes is more than the 4 GiB that several steps can cut: split it"
            )
        return [step.automaton for step in self.steps if step.automaton is not None]


def _pieces_between(data: bytes, ends: list[int]) -> list[str]:
    return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]


def in_sequence(steps: Sequence[CompiledPattern]) -> CompiledPattern:
    """Return the pattern that cuts with each of the steps, in order; `PatternError` for one without an automaton."""
    if len(steps) == 1:
        return steps[0]
    for step in steps:
        if step.tables is None:
            raise PatternError(f"the pattern {step.expression!r} has no automaton, because of {step.refusal}")
    expression = "\n".join(step.expression for step in steps)
    refusal = f"its {len(steps)} steps, each of which cuts the pieces of the one before"
    return PatternSequence(None, expression, None, refusal, steps=tuple(steps))
