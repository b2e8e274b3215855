"""Merge with the words of a counter shared by several parts, each on a node of its own; the result is one engine's.

The coordinating task guesses the next merges from the summed counts, all parts make them, and their answers say how
many of the guesses hold: one exchange for many merges. Every request names the number of merges that are certain, so a
part that was lost is made again from the counter and those merges, and is asked the same again.
"""

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pipeline import _core
from pipeline.counts.counter_file import Columns, CounterFile, open_counter, rows_of
from pipeline.executors.ray_held import Call, Held
from pipeline.merges.forecast import Merging
from pipeline.merges.merge_list import MergeList

if TYPE_CHECKING:
    from pipeline.merges.merge_worker import MergeTask

_log = logging.getLogger(__name__)
_SAMPLED = 1 << 18  # positions that estimate how long the lists of a phase are


class Parts(Protocol):
    """The parts of a counter: objects with the methods of `_core.Part`."""

    def ask(self, method: str, *arguments: object, catch_up: Callable[[], Call] | None = None) -> Iterator[Any]:
        """Call a method of all parts and yield their answers.

        A part that was lost is made again, with the merges so far; then it is called as `catch_up` says, and asked.
        """


def merge(training: _core.SharedTraining, parts: Parts, on_merged: Callable[[], None]) -> None:
    """Make all merges that `training` asks for; `on_merged` is called after each exchange."""
    facts = list(parts.ask("facts"))
    for sums in parts.ask("sums", training.start(facts)):  # one at a time: they may be large
        training.add_up(sums)
    step = sum(slots for slots, *_ in facts) // _SAMPLED + 1

    def index() -> Call:
        return "index", (training.version, bytes(training.indexed()))

    while True:
        samples = list(parts.ask("sample", training.version, step))
        pair_filter = bytes(training.begin_phase(samples, step))
        if not pair_filter:
            return
        for tally in parts.ask("index", training.version, pair_filter):
            training.count(tally)
        training.open_phase()
        fresh, full = b"", False
        while not full and (guess := bytes(training.guess())):
            answers = list(parts.ask("join", training.version, fresh, guess, catch_up=index))
            fresh = bytes(training.enter(answers))
            full = any(answer[-1] for answer in answers)
            on_merged()


@dataclass(frozen=True)
class PartTask:
    """One of several equal ranges of a counter, the merges made so far, and how to merge it."""

    merging: "MergeTask"
    index: int
    parts: int
    threads: int
    known: bytes


def make_part(task: PartTask) -> _core.Part:
    """Read a part of the counter. Raises as `open_counter` does."""
    merging = task.merging
    with open_counter(merging.counter, fingerprint=merging.counter_fingerprint) as counter:
        return _core.Part(
            merging.rules,
            lambda: columns_of(counter, task.index, task.parts),
            (counter.piece_bytes + counter.rows) // task.parts,
            task.known,
            threads=task.threads,
        )


def columns_of(counter: CounterFile, index: int, parts: int) -> Iterator[Columns]:
    """Read one of `parts` equal ranges of a counter: partitions, at both ends perhaps some rows of one."""
    for partition in range(counter.partitions):
        # In fractions of 1 / parts of the partition.
        start = max(index * counter.partitions - partition * parts, 0)
        stop = min((index + 1) * counter.partitions - partition * parts, parts)
        if start < stop:
            columns = counter.read(partition)
            rows = memoryview(columns[2]).nbytes // 8
            yield rows_of(columns, rows * start // parts, rows * stop // parts)


def learn(
    task: "MergeTask",
    way: Merging,
    known: MergeList | None,
    on_merged: Callable[[_core.MergeResult], None],
    part_bytes: int,
) -> _core.MergeResult:
    """Learn the asked number of merges on a Ray cluster, after those that are known.

    part_bytes: what the process of a part takes. Raises `OverflowError` as the engine does, `WorkerError` for a part
    that is lost again and again.
    """
    columns = {name: getattr(known, name) for name in ("left", "right", "counts", "joined")} if known else {}
    training = _core.SharedTraining(task.merges, task.rules, **columns)

    def part(index: int) -> PartTask:
        return PartTask(task, index, way.parts, way.threads, bytes(training.merges()))

    exchanges = itertools.count()

    def on_exchange() -> None:
        next(exchanges)
        on_merged(training.result)

    with Held(make_part, part, way.parts, part_bytes) as held:
        merge(training, held, on_exchange)
    _log.info("merging: %d parts on the nodes, %d exchanges", way.parts, next(exchanges))
    return training.result
