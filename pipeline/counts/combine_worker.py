"""Combining: counters are added into one, a partition of the hashes at a time.

All counters are ordered by the same hash, so the same partition of all of them is added without the others: memory
holds a few partitions for each thread, however large the counters are.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pipeline import _core
from pipeline.base.errors import RunDirectoryError, TrainingError
from pipeline.counts import combine_plan
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.counter_file import Columns, CounterFile, naming_damage, open_counter, rows_of, write_counter
from pipeline.storage import Location, Remote, each
from pipeline.storage.atomic import parts_next_to
from pipeline.storage.scratch import own_mark

COMBINE_BYTES = 256 << 20  # of columns that a combination holds at once
_WHOLE = (0, 1)
_FOOTERS_FRACTION = 8  # an eighth of the memory may hold open files between planning and combining


@dataclass(frozen=True)
class CombineTask:
    """Counters to add, for a worker.

    parts: their paths, each with the fingerprint it must have (None: any). fingerprint, statistics: of the output.
    If a partition of all counters exceeds `memory_bytes`, fewer threads combine them. If it still does, or there are
    more files than may be open, groups of counters are combined first, into temporary local files. weights: by part, a
    fraction (numerator, denominator) that its counts are multiplied by, if not 1. share: which of how many equal ranges
    of hashes (a power of two) this task combines; other tasks combine the others.
    """

    parts: Sequence[tuple[Location, str | None]]
    output: Location
    fingerprint: str
    statistics: ChunkStatistics = ChunkStatistics()
    threads: int = 2
    memory_bytes: int = COMBINE_BYTES
    weights: Mapping[Location, tuple[int, int]] = field(default_factory=dict)
    share: tuple[int, int] = _WHOLE

    def __str__(self) -> str:
        return f"combining {len(self.parts)} counters into {self.output}"


def combine(task: CombineTask) -> int:
    """Add counters into one counter file; returns its rows. Runs in a worker process.

    Raises `RunDirectoryError` for a counter that is damaged or not the one expected, `TrainingError` for a count
    beyond 2^63 - 1.
    """
    sources = [_Source(path, fingerprint, weight=task.weights.get(path, (1, 1))) for path, fingerprint in task.parts]
    shares = task.share[1]
    with parts_next_to(task.output) as neighbour, contextlib.ExitStack() as cleaning:
        cleaning.callback(lambda: _close(sources))
        numbers = itertools.count()
        while True:
            extents = _extents(sources, task.memory_bytes // _FOOTERS_FRACTION)
            threads = combine_plan.threads_for(extents, shares, max(task.threads, 1), task.memory_bytes)
            groups = combine_plan.groups_of(extents, threads, task.memory_bytes)
            if len(groups) == 1:
                return _write_sum(sources, combine_plan.partitions_of(extents, shares), threads, task)
            _close(sources)
            sums = []
            for group in groups:
                path = neighbour.with_name(f".{neighbour.name}.{own_mark()}.{next(numbers):04d}.sum.part")
                cleaning.callback(path.unlink, missing_ok=True)
                partitions = combine_plan.partitions_of([extents[index] for index in group], shares)
                group_task = replace(task, output=path, fingerprint="", statistics=ChunkStatistics())
                _write_sum([sources[index] for index in group], partitions, threads, group_task)
                give_back_memory()
                sums.append(_Source(path, "", share=task.share))
            sources = sums


def join(task: CombineTask) -> int:
    """Write counters of successive shares of the hashes, in order, as one; returns its rows. Runs in a worker process.

    Memory holds one partition at a time. Raises `RunDirectoryError` for a part that is damaged or not the one expected.
    """

    def columns() -> Iterator[Columns]:
        for path, fingerprint in task.parts:
            with open_counter(path, fingerprint=fingerprint) as part:
                yield from part.read_all()

    return write_counter(task.output, columns(), fingerprint=task.fingerprint, statistics=task.statistics)


@dataclass(frozen=True)
class TotalTask:
    """A counter, the fingerprint it must have, and its weight as in `CombineTask`: a task for a worker."""

    path: Location
    fingerprint: str
    weight: tuple[int, int]

    def __str__(self) -> str:
        return f"adding up {self.path}"


def total(task: TotalTask) -> int:
    """Return the weighted number of pieces of a counter, with repetitions. Runs in a worker process.

    Raises `RunDirectoryError` for a damaged counter, `TrainingError` beyond 2^63 - 1.
    """
    try:
        with open_counter(task.path, fingerprint=task.fingerprint) as counter, naming_damage(task.path):
            total = sum(_core.weighted_total(columns, task.weight) for columns in counter.read_all())
    except OverflowError:
        total = 1 << 63
    if total >= 1 << 63:
        raise TrainingError(
            f"the counts of {task.path} with their weight are more than 2^63 - 1; choose smaller weights"
        )
    return total


def give_back_memory() -> None:
    """Return freed memory to the system: Arrow keeps it for itself."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    _core.give_back_memory()


def _write_sum(sources: Sequence["_Source"], partitions: int, threads: int, task: CombineTask) -> int:
    """Write the task's share of the sum of counters; returns its rows. Closes the counters."""
    size = partitions // task.share[1]
    todo = range(task.share[0] * size, (task.share[0] + 1) * size)

    def sum_of(partition: int) -> Columns:
        ranges = [source.partition(partition, partitions, max(threads, 1)) for source in sources]
        weights = [source.weight for source in sources]
        try:
            columns: Columns = _core.combine(ranges, weights)
            return columns
        except OverflowError:
            remedy = "; choose smaller weights" if set(weights) != {(1, 1)} else ""
            raise TrainingError(f"a piece occurs more than 2^63 - 1 times in the counters together{remedy}") from None
        except ValueError as error:
            names = ", ".join(str(source.path) for source in sources[:3])
            raise RunDirectoryError(f"a counter among {names} is damaged ({error}); remove it and run again") from None

    try:
        list(each(_Source.open, sources, remote=_any_remote(sources)))
        sums = _ahead(sum_of, todo, threads) if threads else _one_by_one(sum_of, todo)
        return write_counter(task.output, sums, fingerprint=task.fingerprint, statistics=task.statistics)
    finally:
        _close(sources)


def _ahead(sum_of: Callable[[int], Columns], todo: range, threads: int) -> Iterator[Columns]:
    """Yield the sums in order. One more than threads is under way, so that writing does not hold the threads up."""
    left = iter(todo)
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(sum_of, partition) for partition in itertools.islice(left, threads + 1)]
        while waiting:
            done = waiting.pop(0).result()
            waiting += [pool.submit(sum_of, partition) for partition in itertools.islice(left, 1)]
            yield done


def _one_by_one(sum_of: Callable[[int], Columns], todo: range) -> Iterator[Columns]:
    for partition in todo:
        yield sum_of(partition)
        give_back_memory()


class _Source:
    """A counter among those that are added. Threads share its open file and take turns at it."""

    def __init__(
        self,
        path: Location,
        fingerprint: str | None,
        share: tuple[int, int] = _WHOLE,
        weight: tuple[int, int] = (1, 1),
    ) -> None:
        self.path, self.weight = path, weight
        self._fingerprint, self._share = fingerprint, share
        self._file: CounterFile | None = None
        self._lock = threading.Lock()
        self._read: dict[int, tuple[Columns, Sequence[int]]] = {}  # partitions of the file, cut into those of the sum

    def open(self) -> CounterFile:
        """Open the file if it is not open."""
        if self._file is None:
            self._file = open_counter(self.path, fingerprint=self._fingerprint)
        return self._file

    def extent(self) -> combine_plan.Extent:
        """Read the footer; the file stays open."""
        return combine_plan.extent_of(self.open(), self._share[1])

    def partition(self, partition: int, partitions: int, kept: int) -> Columns:
        """Read a partition of the sum; the file may have coarser ones, of which the last `kept` stay in memory."""
        file = self.open()
        finer = partitions // (file.partitions * self._share[1])
        index = partition // finer - self._share[0] * file.partitions
        with self._lock:
            if finer == 1:
                return file.read(index)
            if index not in self._read:
                while len(self._read) >= kept:
                    del self._read[next(iter(self._read))]
                columns = file.read(index)
                self._read[index] = columns, _core.partition_starts(columns, partitions)
            columns, starts = self._read[index]
        return rows_of(columns, starts[partition], starts[partition + 1])

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._read.clear()


def _extents(sources: Sequence[_Source], memory_bytes: int) -> list[combine_plan.Extent]:
    """Read every footer. Files stay open within limits of memory and number, so that no footer is read twice."""
    too_many = len(sources) > combine_plan.open_files()
    extents: list[combine_plan.Extent] = []
    for source, extent in zip(sources, each(_Source.extent, sources, remote=_any_remote(sources)), strict=True):
        memory_bytes -= extent.footer_bytes
        extents.append(extent)
        if too_many or memory_bytes < 0:
            source.close()
    return extents


def _close(sources: Sequence[_Source]) -> None:
    for source in sources:
        source.close()


def _any_remote(sources: Sequence[_Source]) -> bool:
    """Whether any counter is in a store: then several are opened at the same time."""
    return any(isinstance(source.path, Remote) for source in sources)
