"""The story of `merge`: learn the merge list from the combined counter and keep it.

Runs in a worker process, as counting and combining do: the coordinator never holds the pieces. What it will take of
memory is forecast from the counter first; where there is not so much, the counter is read in ranges while the engine
takes it in, with fewer threads, and where even that is too much, nothing is begun.
"""

import logging
import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline import _core
from pipeline.base.errors import TrainingError
from pipeline.counts.counter_file import Columns, CounterFile, open_counter
from pipeline.executors.worker import report_progress
from pipeline.merges import merge_list
from pipeline.merges.forecast import Merging, choose, shape_of, surely_enough, too_large
from pipeline.merges.merge_list import MergeList
from pipeline.storage import Location

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MergeTask:
    """A combined counter and how to merge it, for a worker; `fingerprint` is the output's.

    room_bytes: what merging may take beside the process itself; below 0 where that is too much. beside_bytes: what is
    taken by everything else.
    """

    counter: Location
    counter_fingerprint: str
    merges: int
    min_frequency: int
    min_piece_count: int
    max_token_bytes: int | None
    tie_break: str
    threads: int
    output: Location
    fingerprint: str
    room_bytes: int
    beside_bytes: int

    def __str__(self) -> str:
        return f"merging {self.counter}"


def stored(task: MergeTask) -> MergeList | None:
    """The merge list that the task would write, if it is there: perhaps a shorter one. Runs in a worker process.

    Raises `RunDirectoryError` where it is damaged.
    """
    return merge_list.load(task.output, task.fingerprint)


def check(task: MergeTask) -> int:
    """The bytes that `learn` will take; raises as it does where there are not so many. Runs in a worker process."""
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        _require_some(task, counter.read_all())
        return _way(task, counter).bytes


def learn(task: MergeTask) -> MergeList:
    """Train on counted pieces until there are so many merges or no pair is frequent enough; write `merges.parquet`.

    Runs in a worker process. Raises `TrainingError` where the counts are beyond what 64 bits hold, merging beyond what
    memory holds, or every piece too rare; `RunDirectoryError` for a damaged counter or an output that cannot be
    written.
    """
    started = time.monotonic()
    _core.give_back_memory()
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        _require_some(task, counter.read_all())
        way = _way(task, counter)
        engine = _core.MergeEngine()
        if way.streamed:
            engine.stream(lambda: counter.read_all(), counter.piece_bytes)
        else:
            batches = list(counter.read_all())
            while batches:
                engine.add(*batches.pop())  # which gives the memory back as soon as it can
        result = _run(engine, task, way)
    learned = MergeList(
        array("I", result.left),
        array("I", result.right),
        array("Q", result.counts),
        array("Q", result.joined),
        result.bytes,
        exhausted=result.stop == "min-frequency",
        left_out_pieces=result.left_out_pieces,
        left_out_bytes=result.left_out_bytes,
    )
    _log.info("%d merges in %.2f s, %d phases", len(learned), time.monotonic() - started, result.phases)
    merge_list.save(learned, task.output, task.fingerprint)
    _core.give_back_memory()  # the coordinator exports beside this process, which stays
    return learned


def _require_some(task: MergeTask, ranges: Iterable[Columns]) -> None:
    """Raise `TrainingError` where every piece is rarer than those that are to be merged."""
    if task.min_piece_count == 1:
        return
    most = 0
    for _, _, counts in ranges:
        most = max(most, max(memoryview(counts).cast("B").cast("Q"), default=0))
        if most >= task.min_piece_count:
            return
    if most:
        raise TrainingError(
            f"--min-piece-count {task.min_piece_count:,} leaves out every piece: the most frequent one occurs "
            f"{most:,} times; give at most {most}"
        )


def _way(task: MergeTask, counter: CounterFile) -> Merging:
    """The fastest way to merge that there is memory for; raises `TrainingError` where there is none."""
    enough = surely_enough(counter.rows, counter.piece_bytes, task.merges)
    if enough <= task.room_bytes:
        return Merging(enough, task.threads, streamed=False)
    tally = _core.CountTally(task.min_piece_count)
    for columns in counter.read_all():
        tally.add(*columns)
    shape = shape_of(tally, task.merges, task.min_piece_count)
    way = choose(shape, task.merges, threads=task.threads, room_bytes=task.room_bytes)
    if way is None:
        room, beside = task.room_bytes, task.beside_bytes
        raise TrainingError(too_large(tally.classes(), shape, task.merges, room_bytes=room, beside_bytes=beside))
    _log.info("merging: %s, of %d bytes of room; %s", way, task.room_bytes, shape)
    return way


def _run(engine: _core.MergeEngine, task: MergeTask, way: Merging) -> _core.MergeResult:
    done = 0

    def progress(now: int, _total: int, _best_count: int) -> None:
        nonlocal done
        if now > done:
            report_progress(now - done)
            done = now

    try:
        return engine.run(
            task.merges,
            min_frequency=task.min_frequency,
            min_piece_count=task.min_piece_count,
            max_token_bytes=task.max_token_bytes,
            tie_break=task.tie_break,
            threads=way.threads,
            progress=progress,
        )
    except (OverflowError, ValueError) as error:
        raise TrainingError(f"merging cannot go on: {error}; train on a part of the corpus") from None
