"""Learn the merge list from the combined counter and write it, in a worker process.

The memory that merging takes is forecast first; if it exceeds the budget, the engine makes compact words, with fewer
threads; if that is still too much, it keeps words on disk. The merges so far are stored between phases: after a kill
the next process continues with them.
"""

import logging
import os
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError, TrainingError, os_error_as
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.counts.combine_worker import in_order
from bpe_pipeline.counts.counter_file import Columns, CounterFile, open_counter
from bpe_pipeline.executors.worker import report_totals
from bpe_pipeline.merges import merge_list
from bpe_pipeline.merges.forecast import COMPACT_FROM, Merging, choose, least, shape_of, surely_enough
from bpe_pipeline.merges.merge_list import Choices, MergeList
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import parts_next_to
from bpe_pipeline.storage.scratch import own_mark

_MOST_OF_TIME = 1 / 20  # that storing the merges so far may take
_FIRST_AFTER_S = 1.0
_log = logging.getLogger(__name__)

OnMerged = Callable[[_core.MergeResult, Choices], None]


@dataclass(frozen=True)
class FirstStage:
    """A prefix of a stored merge list (the first stage) from which superword training continues."""

    path: Location
    fingerprint: str
    merges: int


@dataclass(frozen=True)
class Learner:
    """What learns the merges of an extension in place of this module's engine; a worker unpickles both functions by
    name.

    way: chooses how to merge, as `_way` does. learn: makes the merges after those that are known, in that many threads.
    """

    way: "Callable[[MergeTask], Merging]"
    learn: "Callable[[MergeTask, int, MergeList | None, OnMerged], tuple[_core.MergeResult, Choices]]"


@dataclass(frozen=True)
class MergeTask:
    """A combined counter and how to merge it, for a worker."""

    counter: Location
    counter_fingerprint: str
    merges: int
    rules: MergeRules
    threads: int
    output: Location
    so_far: Location  # the merges of the phases that have ended, until the output is complete
    fingerprint: str  # of both
    grant: Grant  # for merging, on top of the process itself; below 0 if that is too much already
    first: FirstStage | None = None
    learner: Learner | None = None  # of an extension that chooses the merges

    def __str__(self) -> str:
        return f"merging {self.counter}"


def read(stored: tuple[Location, str]) -> MergeList | None:
    """Read a merge list of this fingerprint, if it is there: perhaps a shorter one than a task would write."""
    return merge_list.load(*stored)


def check(task: MergeTask) -> Merging:
    """Return how `learn` will merge; raise as it does if memory is below the least."""
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        return _way(task, counter)


def known(task: MergeTask) -> MergeList | None:
    """Read the merges that a process made before it was killed; None if there are none, or damaged ones."""
    try:
        so_far = merge_list.load(task.so_far, task.fingerprint)
    except RunDirectoryError as error:
        _log.warning("%s", error)
        return None
    return so_far.first(task.merges) if so_far else None


def first_merges(stage: FirstStage) -> MergeList:
    """Read the merges of a first stage; `RunDirectoryError` if they are missing or damaged."""
    merges = merge_list.load(stage.path, stage.fingerprint)
    if merges is None or not merges.serves(stage.merges):
        raise RunDirectoryError(f"{stage.path} is missing or belongs to another run; run merge again")
    return merges.first(stage.merges)


def learn(task: MergeTask) -> MergeList:
    """Learn the asked number of merges, or all that are frequent enough, and write `merges.parquet`.

    Raises `UsageError` if memory is too small, `TrainingError` if counts exceed 64 bits or all pre-tokens are rare, and
    `RunDirectoryError` if words cannot be written to disk.
    """
    started, before = time.monotonic(), known(task) or (first_merges(task.first) if task.first else None)
    _core.give_back_memory()
    progress = report_totals(len(before) if before else 0)
    remedy = "free disk space, or give a larger --memory-limit"
    with (
        open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter,
        parts_next_to(task.output) as neighbour,
        os_error_as(RunDirectoryError, f"the words next to {task.output} cannot be written", remedy),
    ):
        way, store = _way(task, counter), _Storing(task)
        choices: Choices | None = None

        def on_merged(result: _core.MergeResult, choices: Choices) -> None:
            progress(len(result.counts))
            store(result, choices)

        try:
            if task.learner is not None:
                result, choices = task.learner.learn(task, way.threads, before, on_merged)
            else:
                scratch = str(neighbour.with_name(f".{neighbour.name}.{own_mark()}.words"))
                result = _engine(counter, before).run(
                    task.merges,
                    task.rules,
                    threads=way.threads,
                    progress=progress,
                    compact=way.compact,
                    resident_bytes=way.resident_bytes,
                    scratch=scratch,
                    phase_end=store,
                )
        except (OverflowError, ValueError) as error:
            raise TrainingError(f"merging cannot continue: {error}; train on a part of the corpus") from None
    learned = as_list(result, choices)
    _log.info("%d merges in %.2f s, %d phases", len(learned), time.monotonic() - started, result.phases)
    merge_list.save(learned, task.output, task.fingerprint)
    _core.give_back_memory()  # this process stays while the coordinator exports
    return learned


def _engine(counter: CounterFile, before: MergeList | None) -> _core.MergeEngine:
    """Return an engine that reads this counter, after the merges that are known."""
    engine = _core.MergeEngine()
    if before:
        engine.resume(before.left, before.right, before.counts, before.joined)

    def read() -> Iterator[Columns]:
        yield from in_order(counter.read, range(counter.partitions), 1, 0)
        _core.give_back_memory()  # what decoding took, before merging takes more

    engine.stream(read, counter.pre_token_bytes + counter.rows)
    return engine


class _Storing:
    """Stores the merges so far when a phase has ended, as often as costs little time."""

    def __init__(self, task: MergeTask) -> None:
        first_after_s = min(float(os.environ.get("BPE_PIPELINE_CHECKPOINT_S", _FIRST_AFTER_S)), _FIRST_AFTER_S)
        self._task, self._next_s = task, time.monotonic() + first_after_s

    def __call__(self, result: _core.MergeResult, choices: Choices | None = None) -> None:
        started = time.monotonic()
        if started < self._next_s or len(result.counts) == 0:
            return
        merge_list.save(as_list(result, choices), self._task.so_far, self._task.fingerprint)
        took = time.monotonic() - started
        self._next_s = started + took + took / _MOST_OF_TIME


def as_list(result: _core.MergeResult, choices: Choices | None) -> MergeList:
    """Return what an engine learned as a merge list."""
    return MergeList(
        array("I", result.left),
        array("I", result.right),
        array("Q", result.counts),
        array("Q", result.joined),
        result.bytes,
        exhausted=result.stop == "min-frequency",
        left_out_pre_tokens=result.left_out_pre_tokens,
        left_out_bytes=result.left_out_bytes,
        choices=choices,
    )


def _way(task: MergeTask, counter: CounterFile) -> Merging:
    """Choose the fastest way to merge within the grant; `UsageError` if there is none.

    `TrainingError` if every pre-token is too rare.
    """
    most, rarest = 0, task.rules.min_pre_token_count
    for _, _, counts in counter.read_all() if rarest > 1 else ():
        most = max(most, max(memoryview(counts).cast("B").cast("Q"), default=0))
        if most >= rarest:
            break
    else:
        if most:
            raise TrainingError(
                f"--min-pre-token-count {rarest:,} leaves out every pre-token: the most frequent one occurs "
                f"{most:,} times; give at most {most}"
            )
    if task.learner is not None:
        return task.learner.way(task)
    enough = surely_enough(counter.rows, counter.pre_token_bytes, task.merges, threads=task.threads)
    if enough <= task.grant.bytes and counter.pre_token_bytes < COMPACT_FROM:
        return Merging(enough, task.threads)
    tally = _core.CountTally(rarest)
    for columns in counter.read_all():
        tally.add(columns)
    shape = shape_of(tally, task.merges, rarest)
    way = choose(shape, task.merges, threads=task.threads, budget_bytes=task.grant.bytes)
    if way is None:
        raise task.grant.refusal(least(task.merges, shape), "merging")
    _log.info("merging: %s, within %d bytes; %s", way, task.grant.bytes, shape)
    if way.resident_bytes:
        text = "merging: words that do not fit in memory are on disk; about %d passes over them"
        _log.info(text, way.passes)
    return way
