"""What `verify` does in worker processes: add up counters, and replay a merge list by its definition.

The replay shares no code with the merge engine (see native/verify): it is a second opinion.
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
from pipeline.run.ids import BYTE_ORDER
from pipeline.storage import Location

_REPORT_EVERY_S = 0.2
_MODULUS = 1 << 64
# What the replay takes for each different piece and each of their bytes, measured on random words, and on Chinese and
# Japanese split at white space, whose long pieces have most pairs: these take 0.7 to 0.95 of it, short words in many
# scripts less. Only long pieces of random characters take more; `replay` notices that.
_BYTES_PER_ROW, _BYTES_PER_PIECE_BYTE = 150, 36
_BYTES_AT_LEAST = 24 << 20
_COPIES_READ = 3  # of a partition: as read, decoded, and checked


@dataclass(frozen=True)
class SumTask:
    """A counter and its fingerprint: a task for a worker. budget_bytes: what reading it may take."""

    path: Location
    fingerprint: str
    budget_bytes: int

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
    rows = pieces = size = digest = column_bytes = 0
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
            rows, pieces, size, digest = rows + found[0], pieces + found[1], size + found[2], digest + found[3]
            column_bytes += memoryview(columns[1]).nbytes
        counted = counter.statistics.pieces
    if counted != pieces:
        raise RunDirectoryError(
            f"the counter {task.path} holds {pieces:,} pieces, but says that {counted:,} were counted"
        )
    return Sum(rows, pieces, size % _MODULUS, digest % _MODULUS, column_bytes)


@dataclass(frozen=True)
class ReplayTask:
    """A merge list to replay against a combined counter, by the rules that it was learned by: a task for a worker."""

    counter: Location
    counter_fingerprint: str
    merges: Location
    fingerprint: str
    tie_break: str
    min_frequency: int
    max_token_bytes: int | None
    min_piece_count: int
    budget_bytes: int  # for the replay, on top of the process itself

    def __str__(self) -> str:
        return f"replaying {self.merges}"


def load(task: ReplayTask) -> MergeList:
    """Read the merge list. Raises `RunDirectoryError` if it is damaged or another run's."""
    merges = merge_list.load(task.merges, task.fingerprint)
    if merges is None:
        raise RunDirectoryError(
            f"{task.merges} is missing, or was not learned from these counts with these options; run merge again"
        )
    return merges


def replay(task: ReplayTask) -> MergeList:
    """Replay every merge and return the list, which is then right; `RunDirectoryError` names the first wrong merge.

    Raises `TrainingError` if the replay exceeds its budget: the memory of many different pairs cannot be predicted.
    """
    _core.give_back_memory()
    before = machine.own_memory()
    merges = load(task)
    engine = _core.MergeReplay(
        bytes(BYTE_ORDER),
        tie_break=task.tie_break,
        min_frequency=task.min_frequency,
        max_token_bytes=task.max_token_bytes,
    )
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        for columns in counter.read_all():
            engine.add(columns, task.min_piece_count)
    if engine.bytes != merges.bytes:
        raise RunDirectoryError(
            f"{task.merges} was learned from {merges.bytes:,} bytes of pieces, the counter has {engine.bytes:,}"
        )

    def wrong(rank: int, expected: str, found: str) -> RunDirectoryError:
        return RunDirectoryError(
            f"{task.merges} is wrong from rank {rank} on: expected {expected}, found {found}; remove it and run merge "
            "again, which learns it from the counter"
        )

    def shown(left: int, right: int, count: int) -> str:
        pair = (repr(engine.token(id_).decode(errors="backslashreplace")) for id_ in (left, right))
        return f"{' and '.join(pair)} with count {count:,}"

    reported, report_at = 0, time.monotonic() + _REPORT_EVERY_S
    rows = zip(merges.left, merges.right, merges.counts, merges.joined, strict=True)
    for rank, (left, right, count, joined) in enumerate(rows):
        due = engine.best()
        if due != (left, right, count):
            raise wrong(rank, "no merge" if due is None else shown(*due), shown(left, right, count))
        really = engine.merge(left, right)
        if really != joined:
            raise wrong(rank, f"{really:,} occurrences joined", f"{joined:,} occurrences joined")
        if time.monotonic() > report_at:
            if machine.own_memory() - before > task.budget_bytes:
                raise TrainingError(
                    f"{task} takes more than the {format_bytes(task.budget_bytes)} that there are, at merge "
                    f"{rank + 1:,} of {len(merges):,}: its pairs are mostly different; give a larger --memory-limit"
                )
            report_progress(rank + 1 - reported)
            reported, report_at = rank + 1, time.monotonic() + _REPORT_EVERY_S
    further = engine.best()
    if merges.exhausted and further is not None:
        raise wrong(len(merges), shown(*further), "the end of the list, as if no pair were left")
    return merges
