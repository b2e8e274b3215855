"""Combining: counters are added into one, a range of hashes at a time.

All counters are ordered by the same hash, so the same range of all of them is added without the others: memory holds
a few ranges for each thread, however large the counters are.
"""

import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline import _core
from pipeline.counters import Columns, CounterFile, open_counter, partitions_for, write_counter
from pipeline.errors import RunDirectoryError, TrainingError

COMBINE_BYTES = 256 << 20  # of columns that a combination holds at once
_MOST_OPEN_FILES = 1024
_OPEN_BYTES = 2 << 10  # of what is known of a partition of an open counter
_JOB_PARTITIONS = 4  # at most; a power of two
_Part = tuple[Path, str | None]  # a counter and the fingerprint it must have


@dataclass(frozen=True)
class CombineTask:
    """Counters to add, for a worker.

    parts: their paths, each with the fingerprint it must have (None: any). fingerprint, statistics: of the output.
    Where one range of all counters is more than `memory_bytes`, fewer threads combine them; where it is still more, or
    they are more files than may be open, groups of counters are combined first, into files beside the output. Up to
    `keep_bytes` of columns stay in the worker for `take_kept`.
    """

    parts: Sequence[tuple[Path, str | None]]
    output: Path
    fingerprint: str
    statistics: dict[str, Any]
    threads: int = 2
    memory_bytes: int = COMBINE_BYTES
    keep_bytes: int = 0

    def __str__(self) -> str:
        return f"combining {len(self.parts)} counters into {self.output}"


def combine(task: CombineTask) -> int:
    """Add counters into one counter file; returns its rows. Runs in a worker process.

    Raises `RunDirectoryError` for a counter that is damaged or not the one expected, `TrainingError` for a count
    beyond 2^63 - 1.
    """
    parts = list(task.parts)
    temporary: list[Path] = []
    try:
        threads, groups = _plan(parts, max(task.threads, 1), task.memory_bytes)
        while len(groups) > 1:
            joined: list[_Part] = []
            for group in groups:
                if len(group) == 1:
                    joined += group
                    continue
                part = task.output.with_name(f".{task.output.name}.{len(temporary):04d}.sum.part")
                temporary.append(part)
                _combine(group, part, fingerprint="", statistics={}, threads=threads)
                joined.append((part, ""))
            parts = joined
            threads, groups = _plan(parts, max(task.threads, 1), task.memory_bytes)
        kept = _Kept(task.output, task.fingerprint, task.keep_bytes)
        rows = _combine(
            parts,
            task.output,
            fingerprint=task.fingerprint,
            statistics=task.statistics,
            threads=threads,
            keep=kept.add,
        )
        global _kept
        _kept = kept if kept.batches else None
        return rows
    finally:
        for part in temporary:
            part.unlink(missing_ok=True)


class _Kept:
    """Columns of a combined counter, all or none, that need not be read again by the same process."""

    def __init__(self, path: Path, fingerprint: str, room: int) -> None:
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


def take_kept(path: Path, fingerprint: str) -> list[Columns] | None:
    """The columns of a counter, if this process combined it last and kept them; they are then no longer kept."""
    global _kept
    kept, _kept = _kept, None
    if kept is None or (kept.path, kept.fingerprint) != (path, fingerprint):
        return None
    return kept.batches


def _plan(parts: list[_Part], threads: int, memory_bytes: int) -> tuple[int, list[list[_Part]]]:
    """With how many threads to combine, and in which groups: one group where all fit the memory together.

    A group has at least two counters, so that there is an end.
    """
    sizes = []
    for path, wanted in parts:
        with open_counter(path, fingerprint=wanted) as counter:
            sizes.append(counter.partition_bytes() + _OPEN_BYTES * counter.partitions)
    files = _open_files()
    while threads > 1 and (_held_bytes(sum(sizes), threads) > memory_bytes or len(parts) * threads > files):
        threads -= 1
    groups: list[list[_Part]] = [[]]
    filled = 0
    for part, size in zip(parts, sizes, strict=True):
        group = groups[-1]
        if len(group) >= 2 and (_held_bytes(filled + size, threads) > memory_bytes or len(group) * threads >= files):
            groups.append([])
            filled = 0
        groups[-1].append(part)
        filled += size
    return threads, groups


def _held_bytes(partition_bytes: int, threads: int) -> int:
    """What combining holds at most, where a range of all counters is so much.

    A thread holds a range of all counters and what it makes of them; one more range made waits to be written.
    """
    return (2 * threads + 2) * partition_bytes


def _open_files() -> int:
    """Files that may be open at the same time for reading counters."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN_FILES if allowed == resource.RLIM_INFINITY else max(4, min(_MOST_OPEN_FILES, allowed // 2))


def _combine(
    parts: Sequence[_Part],
    output: Path,
    *,
    fingerprint: str,
    statistics: dict[str, Any],
    threads: int,
    keep: Callable[[Columns], None] = lambda _: None,
) -> int:
    reader = _Reader(parts)
    rows = 0

    def combined() -> Iterator[Columns]:
        nonlocal rows
        ahead = iter(reader.jobs())
        # One more job than threads is under way, so that writing does not hold them up.
        with ThreadPoolExecutor(max(threads, 1)) as pool:
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

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = parts
        self._local = threading.local()
        self._opened: list[CounterFile] = []
        files = self._files()
        most = max((file.partitions for file in files), default=1)
        least = min((file.partitions for file in files), default=1)
        rows, piece_bytes = sum(file.rows for file in files), sum(file.piece_bytes for file in files)
        self.partitions = max(most, partitions_for(rows, piece_bytes) // 2)
        self._job_partitions = min(_JOB_PARTITIONS, self.partitions // least)

    def _files(self) -> list[CounterFile]:
        if not hasattr(self._local, "files"):
            self._local.files = [open_counter(path, fingerprint=wanted) for path, wanted in self._parts]
            self._local.read = {}
            self._opened += self._local.files
        files: list[CounterFile] = self._local.files
        return files

    def jobs(self) -> list[range]:
        """Neighbouring partitions for a thread to combine, in order: of coarse counters it reads a range only once."""
        step = self._job_partitions
        return [range(start, start + step) for start in range(0, self.partitions, step)]

    def combine(self, job: range) -> list[Columns]:
        return [self._combine(partition) for partition in job]

    def _combine(self, partition: int) -> Columns:
        ranges = [self._range(index, file, partition) for index, file in enumerate(self._files())]
        try:
            columns: Columns = _core.combine(ranges)
            return columns
        except OverflowError:
            raise TrainingError("a piece occurs more than 2^63 - 1 times in the counters together") from None
        except ValueError as error:
            names = ", ".join(str(path) for path, _ in self._parts[:3])
            raise RunDirectoryError(f"a counter among {names} is damaged ({error}); remove it and run again") from None

    def _range(self, index: int, file: CounterFile, partition: int) -> Columns:
        """A range of the finest partition among the counters, out of a file that may have coarser ones."""
        finer = self.partitions // file.partitions
        if finer == 1:
            return file.read(partition)
        group = partition // finer
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
