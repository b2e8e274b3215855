"""The story of `merge`: learn the merge list from the combined counter and keep it.

Runs in a worker process, as counting and combining do: the coordinator never holds the pieces.
"""

import logging
import time
from array import array
from dataclasses import dataclass

from pipeline import _core, merge_list
from pipeline.combine import take_kept
from pipeline.counters import Columns, open_counter
from pipeline.errors import TrainingError
from pipeline.executors.worker import report_progress
from pipeline.merge_list import MergeList
from pipeline.storage import Location

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MergeTask:
    """A combined counter and how to merge it, for a worker; `fingerprint` is the output's."""

    counter: Location
    counter_fingerprint: str
    merges: int
    min_frequency: int
    max_token_bytes: int | None
    tie_break: str
    threads: int
    output: Location
    fingerprint: str

    def __str__(self) -> str:
        return f"merging {self.counter}"


def _read(task: MergeTask) -> list[Columns]:
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        return [counter.read(partition) for partition in range(counter.partitions)]


def stored(task: MergeTask) -> MergeList | None:
    """The merge list that the task would write, if it is there: perhaps a shorter one. Runs in a worker process.

    Raises `RunDirectoryError` where it is damaged.
    """
    return merge_list.load(task.output, task.fingerprint)


def learn(task: MergeTask) -> MergeList:
    """Train on counted pieces until there are so many merges or no pair is frequent enough; write `merges.parquet`.

    Runs in a worker process. Raises `TrainingError` where the counts are beyond what 64 bits hold, `RunDirectoryError`
    for a damaged counter or an output that cannot be written.
    """
    started = time.monotonic()
    engine = _core.MergeEngine()
    batches = take_kept(task.counter, task.counter_fingerprint) or _read(task)
    while batches:
        engine.add(*batches.pop())  # which gives the memory back as soon as it can
    done = 0

    def progress(now: int, _total: int, _best_count: int) -> None:
        nonlocal done
        if now > done:
            report_progress(now - done)
            done = now

    try:
        result = engine.run(
            task.merges,
            min_frequency=task.min_frequency,
            max_token_bytes=task.max_token_bytes,
            tie_break=task.tie_break,
            threads=task.threads,
            progress=progress,
        )
    except (OverflowError, ValueError) as error:
        raise TrainingError(f"merging cannot go on: {error}; train on a part of the corpus") from None
    learned = MergeList(
        array("I", result.left),
        array("I", result.right),
        array("Q", result.counts),
        array("Q", result.joined),
        result.bytes,
        exhausted=result.stop == "min-frequency",
    )
    _log.info("%d merges in %.2f s, %d phases", len(learned), time.monotonic() - started, result.phases)
    merge_list.save(learned, task.output, task.fingerprint)
    return learned
