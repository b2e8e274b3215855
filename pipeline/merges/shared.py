"""Merge with the words of a counter shared by several parts, each on a node of its own; the result is that of one engine.

The coordinator guesses the next merges from the summed counts, all parts make them, and their answers say how many of
the guesses hold: one exchange for many merges. Every request names the number of merges that are certain, so a part that
was lost is made again from the counter and those merges, and is asked the same again.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pipeline import _core

_SAMPLED = 1 << 18  # positions that estimate how long the lists of a phase are


class Parts(Protocol):
    """The parts of a counter: objects with the methods of `_core.Part`."""

    def ask(self, method: str, *arguments: object, indexed: Callable[[], bytes] | None = None) -> Sequence[Any]:
        """Call a method of all parts and return their answers.

        A lost part is made again first, with the merges so far and, if the request is within a phase, an index of what
        `indexed()` returns.
        """


def merge(
    training: _core.SharedTraining,
    parts: Parts,
    *,
    phase_end: Callable[[_core.MergeResult], None],
    progress: Callable[[int], None],
) -> None:
    """Make all merges that `training` asks for; `progress(version)` is called after each exchange."""
    facts = parts.ask("facts")
    size = training.start(facts)
    training.add_up(parts.ask("sums", size))
    step = sum(slots for slots, *_ in facts) // _SAMPLED + 1

    def indexed() -> bytes:
        return bytes(training.indexed())

    while True:
        samples = parts.ask("sample", training.version, step)
        pair_filter = bytes(training.begin_phase(samples, step))
        if not pair_filter:
            return
        training.open_phase(parts.ask("index", training.version, pair_filter))
        fresh, full = b"", False
        while not full and (guess := bytes(training.guess())):
            answers = parts.ask("join", training.version, fresh, guess, indexed=indexed)
            fresh = bytes(training.enter(answers))
            full = any(answer[-1] for answer in answers)
            progress(training.version)
        phase_end(training.result)
