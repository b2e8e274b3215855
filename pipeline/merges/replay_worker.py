"""What `verify` does in worker processes: add up counters, and replay a merge list by its definition.

The replay shares no code with the merge engine (see native/verify): it is a second opinion. Where all pieces do not fit
in memory they are read several times, each replayed by itself.
"""

import time
from dataclasses import dataclass

from pipeline import _core
from pipeline.base import machine
from pipeline.base.errors import RunDirectoryError, TrainingError
from pipeline.base.units import format_bytes
from pipeline.counts.counter_file import naming_damage, open_counter
from pipeline.executors.worker import report_progress
from pipeline.merges import merge_list
from pipeline.merges.merge_list import MergeList
from pipeline.merges.merge_worker import FirstStage, first_merges
from pipeline.merges.rules import MergeRules
from pipeline.run.ids import BYTE_ORDER
from pipeline.storage import Location

_REPORT_EVERY_S = 0.2
_MODULUS = 1 << 64
# What the replay takes for each different piece and each of their bytes, measured on random words, and on Chinese and
# Japanese split at white space, whose long pieces have most pairs: these take 0.7 to 0.95 of it, short words in many
# scripts less. Only long pieces of random characters take more; `replay` notices that, and streams them.
_BYTES_PER_ROW, _BYTES_PER_PIECE_BYTE = 150, 36
_BYTES_AT_LEAST = 24 << 20
_COPIES_READ = 3  # of a partition: as read, decoded, and checked


@dataclass(frozen=True)
class SumTask:
    """A counter and its fingerprint: a task for a worker. budget_bytes: what reading it may take.

    weight: a fraction that its counts are multiplied by in the sums.
    """

    path: Location
    fingerprint: str
    budget_bytes: int
    weight: tuple[int, int] = (1, 1)

    def __str__(self) -> str:
        return f"reading {self.path}"


@dataclass(frozen=True)
class Sum:
    """The sums of a counter. pieces, bytes, digest: modulo 2^64; column_bytes: of different pieces."""

    rows: int
    pieces: int
    bytes: int
    digest: int
    column_bytes: int

    @property
    def replay_bytes(self) -> int:
        """About the memory that a replay of merges on these pieces takes on top of the process itself."""
        return _BYTES_AT_LEAST + _BYTES_PER_ROW * self.rows + _BYTES_PER_PIECE_BYTE * self.column_bytes


def add_up(task: SumTask) -> Sum:
    """Read a whole counter and check its checksums and order; `TrainingError` if a partition exceeds the budget."""
    rows = pieces = unweighted = size = digest = column_bytes = 0
    with open_counter(task.path, fingerprint=task.fingerprint) as counter:
        needed = _COPIES_READ * counter.partition_bytes()
        if needed > task.budget_bytes:
            raise TrainingError(
                f"{task} would take {format_bytes(needed)} and a worker has {format_bytes(max(task.budget_bytes, 0))}: "
                "a piece in it is very long; give a larger --memory-limit, or fewer --workers"
            )
        for partition in range(counter.partitions):
            columns = counter.read(partition)
            with naming_damage(task.path):
                starts = _core.partition_starts(columns, counter.partitions)
                found = _core.counter_sum(columns)
            if not found[4] or starts[partition] != 0 or starts[partition + 1] != found[0]:
                raise RunDirectoryError(
                    f"the counter {task.path} is damaged: its pieces are not in order of their hash"
                )
            unweighted += found[1]
            if task.weight != (1, 1):
                found = _core.counter_sum(_core.combine([columns], [task.weight]))
            rows, pieces, size, digest = rows + found[0], pieces + found[1], size + found[2], digest + found[3]
            column_bytes += memoryview(columns[1]).nbytes
        counted = counter.statistics.pieces
    if counted != unweighted:
        raise RunDirectoryError(
            f"the counter {task.path} holds {unweighted:,} pieces, but says that {counted:,} were counted"
        )
    return Sum(rows, pieces, size % _MODULUS, digest % _MODULUS, column_bytes)


@dataclass(frozen=True)
class ReplayTask:
    """A merge list to replay against a combined counter, by the rules that it was learned by: a task for a worker."""

    counter: Location
    counter_fingerprint: str
    merges: Location
    fingerprint: str
    rules: MergeRules
    budget_bytes: int  # for the replay, on top of the process itself
    streamed: bool  # the pieces are read several times instead of being held in memory
    first: FirstStage | None = None  # merges that other pieces decided

    def __str__(self) -> str:
        return f"replaying {self.merges}"


def load(task: ReplayTask) -> MergeList:
    """Read the merge list. Raises `RunDirectoryError` if it is damaged or another run's."""
    merges = merge_list.load(task.merges, task.fingerprint)
    if merges is None:
        raise RunDirectoryError(
            f"{task.merges} is missing, or was not learned from these counts with these options; run merge again"
        )
    if task.first:
        first, found = first_merges(task.first), merges.first(task.first.merges)
        if (first.left, first.right, first.counts) != (found.left, found.right, found.counts):
            raise RunDirectoryError(
                f"{task.merges} does not begin with {task.first.path}; remove it and run merge again"
            )
    return merges


def replay(task: ReplayTask) -> tuple[MergeList, int]:
    """Replay every merge; return the list, which is then right, and how often the counter was read.

    Raises `RunDirectoryError` naming the first wrong merge.
    """
    _core.give_back_memory()
    merges = load(task)
    if not task.streamed:
        try:
            return _replay_in_memory(task, merges), 1
        except _TooLargeError as error:
            _core.give_back_memory()
            return merges, _replay_streamed(task, merges, error.args[0])
    return merges, _replay_streamed(task, merges, 0)


class _TooLargeError(Exception):
    """The replay exceeds its budget: the memory of many different pairs cannot be predicted."""


def _refuse_bytes(task: ReplayTask, merges: MergeList, found: int) -> None:
    if found != merges.bytes:
        raise RunDirectoryError(
            f"{task.merges} was learned from {merges.bytes:,} bytes of pieces, the counter has {found:,}"
        )


def _decided_before(task: ReplayTask) -> int:
    return task.first.merges if task.first else 0


def _wrong(task: ReplayTask, rank: int, expected: str, found: str) -> RunDirectoryError:
    return RunDirectoryError(
        f"{task.merges} is wrong from rank {rank} on: expected {expected}, found {found}; remove it and run merge "
        "again, which learns it from the counter"
    )


def _shown(engine: _core.MergeReplay | _core.StreamedReplay, left: int, right: int, count: int) -> str:
    pair = (repr(engine.token(id_).decode(errors="backslashreplace")) for id_ in (left, right))
    return f"{' and '.join(pair)} with count {count:,}"


def _replay_streamed(task: ReplayTask, merges: MergeList, reported: int) -> int:
    """Replay in the budget, in as many readings as that takes; returns their number. reported: merges until now."""
    engine = _core.StreamedReplay(
        task.rules,
        bytes(BYTE_ORDER),
        merges.left,
        merges.right,
        merges.counts,
        merges.joined,
        exhausted=merges.exhausted,
        budget_bytes=max(task.budget_bytes - _BYTES_AT_LEAST, _BYTES_AT_LEAST),
        first=_decided_before(task),
    )
    readings, more = 0, True
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        while more:
            readings += 1
            for partition, columns in enumerate(counter.read_all(), 1):
                engine.add(columns)
                done = int(len(merges) * engine.done(partition / counter.partitions))
                report_progress(max(done - reported, 0))
                reported = max(done, reported)
            if readings == 1:
                _refuse_bytes(task, merges, engine.bytes)
            more = engine.next_reading()
    report_progress(len(merges) - reported)
    if (found := engine.wrong()) is None:
        return readings
    rank, due, count, joined = found
    if rank == len(merges) and due:
        raise _wrong(task, rank, _shown(engine, *due), "the end of the list, as if no pair were left")
    listed = _shown(engine, merges.left[rank], merges.right[rank], merges.counts[rank])
    if due:
        raise _wrong(task, rank, _shown(engine, *due), listed)
    if count != merges.counts[rank]:
        raise _wrong(task, rank, f"count {count:,}", listed)
    if joined == merges.joined[rank]:
        raise _wrong(task, rank, "no merge", listed)
    raise _wrong(task, rank, f"{joined:,} occurrences joined", f"{merges.joined[rank]:,} occurrences joined")


def _replay_in_memory(task: ReplayTask, merges: MergeList) -> MergeList:
    """Replay merge after merge by the definition, with all pieces in memory."""
    before = machine.own_memory()
    engine = _core.MergeReplay(task.rules, bytes(BYTE_ORDER))
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        for columns in counter.read_all():
            engine.add(columns)
    _refuse_bytes(task, merges, engine.bytes)
    reported, report_at = 0, time.monotonic() + _REPORT_EVERY_S
    rows = zip(merges.left, merges.right, merges.counts, merges.joined, strict=True)
    for rank, (left, right, count, joined) in enumerate(rows):
        due = engine.best() if rank >= _decided_before(task) else (left, right, count)
        if due != (left, right, count):
            expected = "no merge" if due is None else _shown(engine, *due)
            raise _wrong(task, rank, expected, _shown(engine, left, right, count))
        really = engine.merge(left, right)
        if really != joined:
            raise _wrong(task, rank, f"{really:,} occurrences joined", f"{joined:,} occurrences joined")
        if time.monotonic() > report_at:
            if machine.own_memory() - before > task.budget_bytes:
                raise _TooLargeError(reported)
            report_progress(rank + 1 - reported)
            reported, report_at = rank + 1, time.monotonic() + _REPORT_EVERY_S
    further = engine.best()
    if merges.exhausted and further is not None:
        raise _wrong(task, len(merges), _shown(engine, *further), "the end of the list, as if no pair were left")
    return merges
