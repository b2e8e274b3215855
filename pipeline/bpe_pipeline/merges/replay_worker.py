"""What `verify` does in worker processes: add up counters, and replay a merge list by its definition.

The replay shares no code with the merge engine (see native/verify): it is a second opinion. Pre-tokens are not kept in
memory but read several times, each replayed by itself.
"""

from dataclasses import dataclass

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError, TrainingError
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.counts.counter_file import naming_damage, open_counter
from bpe_pipeline.executors.worker import report_progress, report_totals
from bpe_pipeline.merges import merge_list
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.merges.merge_worker import FirstStage, first_merges
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.storage import Location

_MODULUS = 1 << 64
_BYTES_AT_LEAST = 24 << 20  # of the replay, and next to its notes
_BYTES_PER_COUNTED_BYTE = 4  # of the replay: with more, two readings are no faster
_COPIES_READ = 3  # of a partition: as read, decoded, and checked


@dataclass(frozen=True)
class SumTask:
    """A counter and its fingerprint: a task for a worker. budget_bytes: what reading it may take.

    weight: a factor for its counts, as a fraction.
    """

    path: Location
    fingerprint: str
    budget_bytes: int
    weight: tuple[int, int] = (1, 1)

    def __str__(self) -> str:
        return f"reading {self.path}"


@dataclass(frozen=True)
class Sum:
    """The sums of a counter. pre-tokens, bytes, digest: modulo 2^64."""

    rows: int
    pre_tokens: int
    bytes: int
    digest: int


def add_up(task: SumTask) -> Sum:
    """Read a whole counter and check its checksums and order; `TrainingError` if a partition exceeds the budget."""
    rows = pre_tokens = unweighted = size = digest = 0
    with open_counter(task.path, fingerprint=task.fingerprint) as counter:
        needed = _COPIES_READ * counter.partition_bytes()
        if needed > task.budget_bytes:
            raise TrainingError(
                f"{task} would take {format_bytes(needed)} and a worker has {format_bytes(max(task.budget_bytes, 0))}: "
                "a pre-token in it is very long; give a larger --memory-limit, or fewer --workers"
            )
        for partition in range(counter.partitions):
            columns = counter.read(partition)
            with naming_damage(task.path):
                starts = _core.partition_starts(columns, counter.partitions)
                total = _core.counter_sum(columns)
            if not total[4] or starts[partition] != 0 or starts[partition + 1] != total[0]:
                raise RunDirectoryError(
                    f"the counter {task.path} is damaged: its pre-tokens are not in order of their hash"
                )
            unweighted += total[1]
            if task.weight != (1, 1):
                total = _core.counter_sum(_core.combine([columns], [task.weight]))
            rows, pre_tokens, size, digest = rows + total[0], pre_tokens + total[1], size + total[2], digest + total[3]
        counted = counter.statistics.pre_tokens
    if counted != unweighted:
        raise RunDirectoryError(
            f"the counter {task.path} holds {unweighted:,} pre-tokens, but says that {counted:,} were counted"
        )
    report_progress(1)
    return Sum(rows, pre_tokens, size % _MODULUS, digest % _MODULUS)


@dataclass(frozen=True)
class ReplayTask:
    """A merge list to replay against a combined counter, by the rules that it was learned by: a task for a worker."""

    counter: Location
    counter_fingerprint: str
    merges: Location
    fingerprint: str
    rules: MergeRules
    budget_bytes: int  # for the replay, on top of the process itself
    first: FirstStage | None = None  # merges that other pre-tokens decided

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
        first, listed = first_merges(task.first), merges.first(task.first.merges)
        if (first.left, first.right, first.counts) != (listed.left, listed.right, listed.counts):
            raise RunDirectoryError(
                f"{task.merges} does not begin with {task.first.path}; remove it and run merge again"
            )
    return merges


def replay(task: ReplayTask) -> tuple[MergeList, int]:
    """Replay every merge within the budget; return the list, which is then right, and how often the counter was read.

    Raises `RunDirectoryError` naming the first wrong merge.
    """
    _core.give_back_memory()
    merges = load(task)
    readings, more, report = 0, True, report_totals()
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        enough = _BYTES_PER_COUNTED_BYTE * counter.partitions * counter.partition_bytes()
        engine = _core.MergeReplay(
            task.rules,
            bytes(BYTE_ORDER),
            merges.left,
            merges.right,
            merges.counts,
            merges.joined,
            exhausted=merges.exhausted,
            budget_bytes=max(min(task.budget_bytes - _BYTES_AT_LEAST, enough), _BYTES_AT_LEAST),
            first=task.first.merges if task.first else 0,
        )
        while more:
            readings += 1
            for partition, columns in enumerate(counter.read_all(), 1):
                engine.add(columns)
                report(int(len(merges) * engine.done(partition / counter.partitions)))
            if readings == 1 and engine.bytes != merges.bytes:
                raise RunDirectoryError(
                    f"{task.merges} was learned from {merges.bytes:,} bytes of pre-tokens, "
                    f"the counter has {engine.bytes:,}"
                )
            more = engine.next_reading()
    report(len(merges))
    if (wrong := engine.wrong()) is not None:
        raise _wrong(task, merges, engine, wrong)
    return merges, readings


def _wrong(
    task: ReplayTask,
    merges: MergeList,
    engine: _core.MergeReplay,
    found: tuple[int, tuple[int, int, int] | None, int, int],
) -> RunDirectoryError:
    """Return the error for a wrong merge. found: its rank, the better pair if there is one, its count and joins."""
    rank, due, count, joined = found

    def shown(left: int, right: int, count: int) -> str:
        pair = (repr(engine.token(id_).decode(errors="backslashreplace")) for id_ in (left, right))
        return f"{' and '.join(pair)} with count {count:,}"

    if rank == len(merges):
        listed = "the end of the list, as if no pair were left"
    else:
        listed = shown(merges.left[rank], merges.right[rank], merges.counts[rank])
    if due:
        expected = shown(*due)
    elif count != merges.counts[rank]:
        expected = f"count {count:,}"
    elif joined == merges.joined[rank]:
        expected = "no merge"
    else:
        expected, listed = (f"{number:,} occurrences joined" for number in (joined, merges.joined[rank]))
    return RunDirectoryError(
        f"{task.merges} is wrong from rank {rank} on: expected {expected}, found {listed}; remove it and run merge "
        "again, which learns it from the counter"
    )
