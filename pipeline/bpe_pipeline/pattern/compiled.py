"""Patterns that are compiled: tables -> native kernel; and patterns in a row. What a worker needs to cut.

An automaton cuts exactly as the `regex` package does (on characters that both know), or there is none, and `regex`
itself cuts (`by_regex`).
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, PatternError
from bpe_pipeline.base.printable import BYTE_CHARACTERS
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.pattern.by_regex import cut_with_regex
from bpe_pipeline.pattern.classes import UNICODE_VERSION
from bpe_pipeline.pattern.normalization import nfc_form
from bpe_pipeline.pattern.presets import Preset, preset_of

_SHOWN_CHARACTERS = 200
MOST_STEPS = 64  # each takes its time to compile and to cut
THEN, THEN_LETTERS = "(?#then)", "(?#then, of letters)"  # between the expressions of steps: comments, to `regex`


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
    nfc: bool = False  # whether counting puts text into NFC before it cuts it
    line_tables: AutomatonTables | None = None  # of an automaton that cuts many lines as documents, if it was asked for

    @property
    def preset(self) -> Preset | None:
        """The preset that it is; None for an expression of the user's own."""
        return preset_of(self.name, self.expression)

    @property
    def shown(self) -> str:
        """The pattern in a message: its name, or its expression, of a long one the beginning."""
        text = self.preset.name if self.preset else self.expression
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."

    @cached_property
    def automaton(self) -> _core.Automaton | None:
        """The native automaton, made at first use and shared after that; another process makes its own."""
        return self.tables.native() if self.tables else None

    @cached_property
    def line_automaton(self) -> _core.Automaton | None:
        """The native automaton of many lines, likewise."""
        return self.line_tables.native() if self.line_tables else None

    @property
    def form(self) -> _core.NormalForm | None:
        """What puts text into a Unicode normalization form before it is split."""
        return nfc_form() if self.nfc else None

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))  # at once: another thread may make the automaton
        for made in ("automaton", "line_automaton"):
            state.pop(made, None)
        return state

    def cut(self, text: str) -> list[str]:
        """Return the pre-tokens of a document, in order; together they are the document. For small texts."""
        if self.automaton is None:
            return list(cut_with_regex(self.expression, text))
        return _pre_tokens_between(text.encode(), self.automaton.cut(text.encode()))


@dataclass(frozen=True)
class PatternSequence(CompiledPattern):
    """At least two steps, each with an automaton, each of which splits the pre-tokens of the one before.

    It has no automaton of its own. `expression` has those of the steps, with `THEN` between. The last ones, after
    `THEN_LETTERS`, cut the text in the byte alphabet, where each byte is a letter: also inside characters.
    """

    steps: tuple[CompiledPattern, ...] = ()
    of_letters: int = 0  # the number of these last steps

    def cut(self, text: str) -> list[str]:
        """Return the pre-tokens of a document, in order; a part of a character is written as `surrogateescape` does."""
        return _pre_tokens_between(text.encode(), self.ends(text.encode()))

    def lengths(self, document: str) -> list[str]:
        """Return, for the core, which takes only the lengths of pre-tokens, texts that are as long."""
        return ["." * (end - start) for start, end in pairwise([0, *self.ends(document.encode())])]

    def ends(self, data: bytes) -> list[int]:
        """Return the end of each pre-token of a document, UTF-8, in bytes."""
        return self._within(data, [len(data)] if data else [], self._automata(data))

    def ends_of_part(self, data: bytes) -> tuple[list[int], int]:
        """Return the ends of the pre-tokens that later text cannot change: those of which the first step is certain."""
        first, *others = self._automata(data)
        ends, rest = first.cut_part(data)
        return self._within(data, ends, others), rest

    def _within(self, data: bytes, ends: list[int], automata: Sequence[_core.Automaton]) -> list[int]:
        """Return the ends of the pre-tokens that these, the last steps make of the pre-tokens with these ends."""
        whole = len(automata) - self.of_letters
        for automaton in automata[:whole]:
            ends = automaton.cut_within(data, ends)
        if not self.of_letters:
            return ends
        text = data.decode("latin-1").translate(BYTE_CHARACTERS)
        letters = text.encode()
        ends = list(accumulate(len(text[start:end].encode()) for start, end in pairwise([0, *ends])))
        for automaton in automata[whole:]:
            ends = automaton.cut_within(letters, ends)
        return list(accumulate(len(letters[start:end].decode()) for start, end in pairwise([0, *ends])))

    def _automata(self, data: bytes) -> list[_core.Automaton]:
        if len(data) >> 32:
            raise InputError(
                f"a document of {len(data):,} bytes is more than the 4 GiB that several steps can split: split it"
            )
        return [step.automaton for step in self.steps if step.automaton is not None]


def _pre_tokens_between(data: bytes, ends: list[int]) -> list[str]:
    return [data[start:end].decode(errors="surrogateescape") for start, end in pairwise([0, *ends])]


def in_sequence(steps: Sequence[CompiledPattern], of_letters: Sequence[CompiledPattern] = ()) -> CompiledPattern:
    """Return the pattern that cuts with each of the steps, in order; `PatternError` for one without an automaton."""
    if len(all_steps := (*steps, *of_letters)) == 1:
        return steps[0]
    for step in all_steps:
        if step.tables is None:
            raise PatternError(f"the pattern {step.expression!r} has no automaton, because of {step.refusal}")
    texts = [THEN.join(step.expression for step in steps), *(step.expression for step in of_letters)]
    refusal = f"its {len(all_steps)} steps, each of which splits the pre-tokens of the one before"
    return PatternSequence(None, THEN_LETTERS.join(texts), None, refusal, steps=all_steps, of_letters=len(of_letters))
