"""Patterns in a row: each cuts the pieces of the one before, as a Sequence of Splits in tokenizer.json does."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.base.errors import InputError, PatternError
from pipeline.pattern.compiled import CompiledPattern, pieces_between


@dataclass(frozen=True)
class PatternSequence(CompiledPattern):
    """At least two steps, each with an automaton, which run one after the other over the whole text.

    It has no automaton of its own. `expression` lists those of the steps, a line each.
    """

    steps: tuple[CompiledPattern, ...] = ()

    def cut(self, text: str) -> list[str]:
        """Return the pieces of a document, in order; together they are the document."""
        return pieces_between(text.encode(), self.ends(text.encode()))

    def ends(self, data: bytes) -> list[int]:
        """Return the end of each piece of a document, UTF-8, in bytes."""
        return self._cut_within(data, [len(data)] if data else [], self.steps)

    def ends_of_part(self, data: bytes) -> tuple[list[int], int]:
        """Return the end of each piece that text after this part cannot change, and where the rest starts.

        These are the pieces that the first step is certain of: none of the others sees beyond them.
        """
        first = self.steps[0].automaton
        assert first is not None, "steps have automata"
        _require_size(data)
        ends, rest = first.cut_part(data)
        return self._cut_within(data, ends, self.steps[1:]), rest

    def _cut_within(self, data: bytes, ends: list[int], steps: Sequence[CompiledPattern]) -> list[int]:
        _require_size(data)
        for step in steps:
            assert step.automaton is not None, "steps have automata"
            ends = step.automaton.cut_within(data, ends)
        return ends


def _require_size(data: bytes) -> None:
    if len(data) >> 32:
        raise InputError(
            f"a document of {len(data):,} bytes is more than the 4 GiB that several steps can cut: split it"
        )


def in_sequence(steps: Sequence[CompiledPattern]) -> CompiledPattern:
    """Return the pattern that cuts with each of the steps, in order: the step itself if there is only one.

    Raises PatternError for a step without an automaton.
    """
    if len(steps) == 1:
        return steps[0]
    for step in steps:
        if step.tables is None:
            raise PatternError(f"the pattern {step.expression!r} has no automaton, because of {step.refusal}")
    expression = "\n".join(step.expression for step in steps)
    refusal = f"its {len(steps)} steps, each of which cuts the pieces of the one before"
    return PatternSequence(None, expression, None, refusal, steps=tuple(steps))
