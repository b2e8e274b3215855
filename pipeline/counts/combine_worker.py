"""Combining: counters are added into one, a range of hashes at a time.

All counters are ordered by the same hash, so the same range of all of them is added without the others: memory holds
a few ranges for each thread, however large the counters are.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from pipeline import _core
from pipeline.base.errors import RunDirectoryError, TrainingError
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.combine_plan import WHOLE, Measured, Part, any_remote, cut, plan
from pipeline.counts.counter_file import Columns, CounterFile, open_counter, write_counter
from pipeline.storage import Location, each
from pipeline.storage.atomic import parts_beside
from pipeline.storage.scratch import own_mark

COMBINE_BYTES = 256 << 20  # of columns that a combination holds at once


@dataclass(frozen=True)
class CombineTask:
    """Counters to add, for a worker.

    parts: their paths, each with the fingerprint it must have (None: any). fingerprint, statistics: of the output.
    Where one range of all counters is more than `memory_bytes`, fewer threads combine them; where it is still more, or
    they are more files than may be open, groups of counters are combined first, into files beside the output (for one
    in a store: temporary local ones). Up to `keep_bytes` of columns stay in the worker for `take_kept`, as those of
    `kept_as` where the output will be moved there. weights: by part, a fraction (numerator, denominator) that its
    counts are multiplied by, where it is not 1. share: which of how many equal ranges of hashes (a power of two) is
    combined; the others are other tasks'.
    """

    parts: Sequence[tuple[Location, str | None]]
    output: Location
    fingerprint: str
    statistics: ChunkStatistics = ChunkStatistics()
    threads: int = 2
    memory_bytes: int = COMBINE_BYTES
    keep_bytes: int = 0
    kept_as: Location | None = None
    weights: Mapping[Location, tuple[int, int]] = field(default_factory=dict)
    share: tuple[int, int] = WHOLE

    def __str__(self) -> str:
        return f"combining {len(self.parts)} counters into {self.output}"


def combine(task: CombineTask) -> int:
    """Add counters into one counter file; returns its rows. Runs in a worker process.

    Raises `RunDirectoryError` for a counter that is damaged or not the one expected, `TrainingError` for a count
    beyond 2^63 - 1.
    """
    parts = [Part(path, fingerprint) for path, fingerprint in task.parts]
    number = 0
    with parts_beside(task.output) as place, contextlib.ExitStack() as cleaning:
        threads, groups = plan(parts, max(task.threads, 1), task.memory_bytes, task.share[1])
        while len(groups) > 1:
            joined: list[Part] = []
            for group in groups:
                if len(group) == 1:
                    joined.append(group[0].part)
                    continue
                part = place.with_name(f".{place.name}.{own_mark()}.{number:04d}.sum.part")
                cleaning.callback(part.unlink, missing_ok=True)
                number += 1
                _combine(group, part, task, fingerprint="", statistics=ChunkStatistics(), threads=threads)
                give_back_memory()
                joined.append(Part(part, "", task.share))
            parts = joined
            threads, groups = plan(parts, max(task.threads, 1), task.memory_bytes, task.share[1])
        kept = _Kept(task.kept_as or task.output, task.fingerprint, task.keep_bytes)
        rows = _combine(
            groups[0],
            task.output,
            task,
            fingerprint=task.fingerprint,
            statistics=task.statistics,
            threads=threads,
            keep=kept.add,
        )
        global _kept
        _kept = kept if kept.batches else None
        return rows


@dataclass(frozen=True)
class TotalTask:
    """A counter, the fingerprint it must have, and its weight as in `CombineTask`: a task for a worker."""

    path: Location
    fingerprint: str
    weight: tuple[int, int]

    def __str__(self) -> str:
        return f"adding up {self.path}"


def total(task: TotalTask) -> int:
    """The pieces of a counter, with repetitions, as it will count with its weight. Runs in a worker process.

    Raises `RunDirectoryError` for a damaged counter, `TrainingError` beyond 2^63 - 1.
    """
    with open_counter(task.path, fingerprint=task.fingerprint) as counter:
        try:
            total = sum(_core.weighted_total(counter.read(i), task.weight) for i in range(counter.partitions))
        except ValueError as error:
            raise RunDirectoryError(f"the counter {task.path} is damaged ({error}); remove it and run again") from None
        except OverflowError:
            total = 1 << 63
    if total >= 1 << 63:
        raise TrainingError(
            f"the counts of {task.path} with their weight are more than 2^63 - 1; choose smaller weights"
        )
    return total


class _Kept:
    """Columns of a combined counter, all or none, that need not be read again by the same process."""

    def __init__(self, path: Location, fingerprint: str, room: int) -> None:
        self.path, self.fingerprint = path, fingerprint
        self.batches: list[Columns] = []
        self._room = room

    def add(self, columns: Columns) -> None:
        self._room -= sum(memoryview(column).nbytes for column in columns)
        if self._room >= 0:
            self.batches.append(columns)
        else:
            self.batches.clear()


_kept: _Kept | None = None


def take_kept(path: Location, fingerprint: str) -> list[Columns] | None:
    """The columns of a counter, if this process combined it last and kept them; they are then no longer kept."""
    global _kept
    kept, _kept = _kept, None
    if kept is None or (kept.path, kept.fingerprint) != (path, fingerprint):
        return None
    return kept.batches


def give_back_memory() -> None:
    """Return what was freed to the system: Arrow keeps it for itself."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    _core.give_back_memory()


def _combine(
    parts: Sequence[Measured],
    output: Location,
    task: CombineTask,
    *,
    fingerprint: str,
    statistics: ChunkStatistics,
    threads: int,
    keep: Callable[[Columns], None] = lambda _: None,
) -> int:
    reader = _Reader(parts, task, threads)
    rows = 0

    def combined() -> Iterator[Columns]:
        nonlocal rows
        ahead = iter(reader.jobs())
        if not threads:
            for job in ahead:
                for columns in reader.combine(job):
                    rows += len(columns[2])
                    keep(columns)
                    yield columns
                    del columns
                give_back_memory()
            return
        # One more job than threads is under way, so that writing does not hold them up.
        with ThreadPoolExecutor(threads) as pool:
            waiting = [pool.submit(reader.combine, job) for job in islice(ahead, threads + 1)]
            while waiting:
                done = waiting.pop(0).result()
                waiting += [pool.submit(reader.combine, job) for job in islice(ahead, 1)]
                for columns in done:
                    rows += len(columns[2])
                    keep(columns)
                    yield columns

    try:
        write_counter(output, combined(), fingerprint=fingerprint, statistics=statistics)
    finally:
        reader.close()
    return rows


class _Reader:
    """Reads and combines the same range of hashes of several counters; each thread has its own open files."""

    def __init__(self, measured: Sequence[Measured], task: CombineTask, threads: int) -> None:
        self._measured = measured
        self._parts = [one.part for one in measured]
        self._weights = [task.weights.get(part.path, (1, 1)) for part in self._parts]
        self._share, self._shares = task.share
        self._local = threading.local()
        self._opened: list[CounterFile] = []
        extents = [one.extent for one in measured]
        self.partitions, self._job_partitions = cut(extents, self._shares, threads)

    def _files(self) -> list[CounterFile]:
        if not hasattr(self._local, "files"):
            self._local.files = list(each(Measured.open, self._measured, remote=any_remote(self._parts)))
            self._local.read = {}
            self._opened += self._local.files
        files: list[CounterFile] = self._local.files
        return files

    def jobs(self) -> list[range]:
        """Neighbouring partitions for a thread to combine at a time, in order."""
        step, size = self._job_partitions, self.partitions // self._shares
        first = self._share * size
        return [range(start, start + step) for start in range(first, first + size, step)]

    def combine(self, job: range) -> list[Columns]:
        return [self._combine(partition) for partition in job]

    def _combine(self, partition: int) -> Columns:
        ranges = [self._range(index, file, partition) for index, file in enumerate(self._files())]
        try:
            columns: Columns = _core.combine(ranges, self._weights)
            return columns
        except OverflowError:
            remedy = "; choose smaller weights" if set(self._weights) != {(1, 1)} else ""
            raise TrainingError(f"a piece occurs more than 2^63 - 1 times in the counters together{remedy}") from None
        except ValueError as error:
            names = ", ".join(str(part.path) for part in self._parts[:3])
            raise RunDirectoryError(f"a counter among {names} is damaged ({error}); remove it and run again") from None

    def _range(self, index: int, file: CounterFile, partition: int) -> Columns:
        """A range of the finest partition among the counters, out of a file that may have coarser ones."""
        index_of_share, shares = self._parts[index].share
        finer = self.partitions // (file.partitions * shares)
        group = partition // finer - index_of_share * file.partitions
        if finer == 1:
            return file.read(group)
        cached = self._local.read.get(index)
        if cached is None or cached[0] != group:
            columns = file.read(group)
            cached = group, columns, _core.partition_starts(columns, self.partitions)
            self._local.read[index] = cached
        _, (offsets, data, counts), starts = cached
        start, stop = starts[partition], starts[partition + 1]
        return (
            memoryview(offsets).cast("B")[8 * start : 8 * (stop + 1)],
            data,
            memoryview(counts).cast("B")[8 * start : 8 * stop],
        )

    def close(self) -> None:
        for file in self._opened:
            file.close()
