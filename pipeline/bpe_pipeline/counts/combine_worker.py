"""Combining: counters are added into one, a partition of the hashes at a time.

All counters are ordered by the same hash, so the same partition of all of them is added without the others: memory
holds a few partitions for each thread, however large the counters are. Into how many partitions, by how many threads
and in which groups is decided from the counters' footers, before any pre-token is read.
"""

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from bpe_pipeline import _core
from bpe_pipeline.base import system
from bpe_pipeline.base.errors import RunDirectoryError, TrainingError
from bpe_pipeline.counts import counter_file
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.counter_file import (
    Columns,
    CounterFacts,
    CounterFile,
    Term,
    Weight,
    counters_of,
    open_counter,
    partitions_for,
    write_counter,
)
from bpe_pipeline.storage import Location, each
from bpe_pipeline.storage.atomic import parts_next_to, put
from bpe_pipeline.storage.scratch import own_mark

COMBINE_BYTES = 256 << 20  # of columns that a combination holds at once
_WHOLE = (0, 1)
_ONE = (1, 1)
_FOOTERS_FRACTION = 8  # an eighth of the memory may hold open files between planning and combining
_MOST_OPEN_FILES = 1024
_SUMS_COPIES = 3  # of a partition of every group's sum: as read, as combined, and the open files
_LEAST_PARTITION_BYTES = 32 << 10
_PARTITION_FOOTER_BYTES = 2 << 10  # of an open counter, for each partition


@dataclass(frozen=True)
class CombineTask:
    """Terms to add, for a worker.

    fingerprint, statistics: of the output; if a term has a weight, these get the weighted number of pre-tokens. If a
    partition of all counters exceeds `memory_bytes`, fewer threads combine them. If it still does, or there are more
    files than may be open, groups of counters are combined first, into temporary local files. share: which of how many
    equal ranges of hashes (a power of two) this task combines; other tasks combine the others. pre_tokens: what they
    are, in JSON, for readers of the output.
    """

    terms: Sequence[Term]
    output: Location
    fingerprint: str
    statistics: ChunkStatistics = ChunkStatistics()
    threads: int = 2
    memory_bytes: int = COMBINE_BYTES
    share: tuple[int, int] = _WHOLE
    pre_tokens: str = ""

    def __str__(self) -> str:
        return f"combining {len(counters_of(self.terms))} counters into {self.output}"


def combine(task: CombineTask) -> CounterFacts:
    """Add counters into one file; `RunDirectoryError` for a damaged one, `TrainingError` for counts beyond 2^63 - 1."""
    sources = [_Source(*counter, term=number) for number, term in enumerate(task.terms) for counter in term.counters]
    return _combine(sources, [term.weight for term in task.terms], task)


def _combine(sources: list["_Source"], weights: Sequence[Weight], task: CombineTask) -> CounterFacts:
    """Write the task's share of the sum of sources. weights: of their terms."""
    with parts_next_to(task.output) as neighbour, contextlib.ExitStack() as cleaning:
        cleaning.callback(lambda: _close(sources))
        numbers = itertools.count()
        wanted = 0  # partitions of the output, whatever groups are made

        def sum_apart(some: Sequence[_Source], term: int, write: Callable[[CombineTask], object]) -> _Source:
            _close(some)
            path = neighbour.with_name(f".{neighbour.name}.{own_mark()}.{next(numbers):04d}.sum.part")
            cleaning.callback(path.unlink, missing_ok=True)
            write(replace(task, output=path, fingerprint="", statistics=ChunkStatistics()))
            give_back_memory()
            return _Source(path, "", share=task.share, term=term)

        while True:
            extents = _extents(sources, task.memory_bytes // _FOOTERS_FRACTION)
            shares = task.share[1]
            wanted = wanted or partitions_of(extents, shares)
            threads = threads_for(extents, shares, max(task.threads, 1), task.memory_bytes)
            groups = groups_of(extents, threads, task.memory_bytes)
            if len(groups) == 1:
                return _write_sum(sources, weights, partitions_of(extents, shares), threads, task, wanted)
            _close(sources)
            of_terms = [list(some) for _, some in itertools.groupby(sources, lambda source: source.term)]
            if {*weights} != {_ONE} and len(of_terms) < len(sources):  # rounded is the sum of a term, not its parts
                sources = [
                    sum_apart(some, number, partial(_combine, some, [_ONE])) for number, some in enumerate(of_terms)
                ]
                continue
            sums = []
            for group in groups:
                # So fine that the sums of all groups fit the memory together: one more pass is enough.
                partition_bytes = task.memory_bytes // (_SUMS_COPIES * len(groups))
                partitions = partitions_of([extents[index] for index in group], shares, partition_bytes)
                some = [sources[index] for index in group]
                sums.append(sum_apart(some, 0, partial(_write_sum, some, weights, partitions, threads)))
            sources, weights = sums, [_ONE]


def join(task: CombineTask) -> CounterFacts:
    """Write counters of successive shares of the hashes as one, in order, with one partition at a time in memory."""

    def columns() -> Iterator[Columns]:
        for path, fingerprint in counters_of(task.terms):
            with open_counter(path, fingerprint=fingerprint) as part:
                yield from part.read_all()

    return _write(task, columns())


def _write(task: CombineTask, sums: Iterable[Columns]) -> CounterFacts:
    return write_counter(
        task.output, sums, fingerprint=task.fingerprint, statistics=task.statistics, pre_tokens_are=task.pre_tokens
    )


def rewrite_as_counted(written: Path, output: Location, task: CombineTask) -> CounterFacts:
    """Move a counter to its place, with the partitions that it would have if it had been counted at once."""
    source = _Source(written, task.fingerprint)
    try:
        file = source.open()
        long_bytes = sum(map(_long_pre_token_bytes, file.read_all()))
        partitions = partitions_for(file.rows, long_bytes)
        if partitions == file.partitions:
            put(written, output)
            return CounterFacts(file.rows, file.statistics)
        finest = max(partitions, file.partitions)
        sums = _joined((source.partition(index, finest, 1) for index in range(finest)), finest // partitions)
        return write_counter(output, sums, fingerprint=task.fingerprint, statistics=task.statistics)
    finally:
        source.close()


def _long_pre_token_bytes(columns: Columns) -> int:
    """Return the bytes of the pre-tokens that are longer than 15."""
    import pyarrow.compute as pc

    lengths = pc.binary_length(counter_file.as_batch(columns).column(0))
    return int(pc.sum(pc.if_else(pc.greater(lengths, 15), lengths, 0)).as_py() or 0)


def give_back_memory() -> None:
    """Return freed memory to the system: Arrow keeps it for itself."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    _core.give_back_memory()


def _write_sum(
    sources: Sequence["_Source"],
    weights: Sequence[Weight],
    partitions: int,
    threads: int,
    task: CombineTask,
    wanted: int | None = None,
) -> CounterFacts:
    """Write the task's share of the sum of counters, added in `partitions` and stored in `wanted`, and close them."""
    size = partitions // task.share[1]
    todo = range(task.share[0] * size, (task.share[0] + 1) * size)

    def sum_of(partition: int) -> Columns:
        ranges = [(source.term, source.partition(partition, partitions, max(threads, 1))) for source in sources]
        try:
            if {*weights} == {_ONE}:
                return _added([columns for _, columns in ranges])
            terms = {term: [columns for _, columns in some] for term, some in itertools.groupby(ranges, _term_of)}
            sums = [some[0] if len(some) == 1 else _added(some) for some in terms.values()]
            return _added(sums, [weights[term] for term in terms])
        except OverflowError:
            remedy = "; choose weights that differ less" if {*weights} != {_ONE} else ""
            raise TrainingError(
                f"a pre-token occurs more than 2^63 - 1 times in the counters together{remedy}"
            ) from None
        except ValueError as error:
            names = ", ".join(str(source.path) for source in sources[:3])
            raise RunDirectoryError(f"a counter among {names} is damaged ({error}); remove it and run again") from None

    try:
        list(each(_Source.open, sources, [source.path for source in sources]))
        sums = in_order(sum_of, todo, threads)
        if wanted is not None and wanted < partitions:
            sums = _joined(sums, partitions // wanted)
        return _write(task, sums)
    finally:
        _close(sources)


def _term_of(columns: tuple[int, Columns]) -> int:
    return columns[0]


def _added(ranges: Sequence[Columns], weights: Sequence[Weight] = ()) -> Columns:
    columns: Columns = _core.combine(ranges, weights)
    return columns


def _joined(sums: Iterator[Columns], together: int) -> Iterator[Columns]:
    """Yield each few partitions as one."""
    while some := list(itertools.islice(sums, together)):
        columns: Columns = _core.combine(some)
        yield columns


def in_order(make: Callable[[int], Columns], todo: range, threads: int, more: int = 1) -> Iterator[Columns]:
    """Yield what is made, in order. While one is used, `more` than `threads` are under way; none if that is 0."""
    left = iter(todo)
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        waiting = deque(
            pool.submit(make, number) for number in itertools.islice(left, threads + 1 + more if threads else 1)
        )
        while waiting:
            yield waiting.popleft().result()
            if not threads:
                give_back_memory()
            waiting.extend(pool.submit(make, number) for number in itertools.islice(left, 1))


@dataclass(eq=False)
class _Source:
    """A counter among those that are added. Threads share its open file and take turns at it."""

    path: Location
    fingerprint: str | None
    share: tuple[int, int] = _WHOLE
    term: int = 0
    _file: CounterFile | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _read: dict[int, tuple[Columns, Sequence[int]]] = field(default_factory=dict)  # of the file, and where it is cut

    def open(self) -> CounterFile:
        """Open the file if it is not open."""
        if self._file is None:
            self._file = open_counter(self.path, fingerprint=self.fingerprint)
        return self._file

    def extent(self) -> "Extent":
        """Read the footer; the file stays open."""
        file, shares = self.open(), self.share[1]
        sizes = (file.partitions * shares, file.rows * shares, file.pre_token_bytes * shares)
        return Extent(_PARTITION_FOOTER_BYTES * file.partitions, file.partition_bytes(), *sizes)

    def partition(self, partition: int, partitions: int, most_kept: int) -> Columns:
        """Read a partition of the sum; the file may have coarser ones, of which the last `kept` stay in memory."""
        file = self.open()
        finer = partitions // (file.partitions * self.share[1])
        index = partition // finer - self.share[0] * file.partitions
        with self._lock:
            if finer == 1:
                return file.read(index)
            if index not in self._read:
                while len(self._read) >= most_kept:
                    del self._read[next(iter(self._read))]
                columns = file.read(index)
                self._read[index] = columns, _core.partition_starts(columns, partitions)
            columns, starts = self._read[index]
        return counter_file.rows_of(columns, starts[partition], starts[partition + 1])

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._read.clear()


def _close(sources: Sequence[_Source]) -> None:
    for source in sources:
        source.close()


def _extents(sources: Sequence[_Source], memory_bytes: int) -> list["Extent"]:
    """Read every footer. Files stay open within limits of memory and number, so that no footer is read twice."""
    too_many = len(sources) > _open_files()
    extents: list[Extent] = []
    read = each(_Source.extent, sources, [source.path for source in sources])
    for source, extent in zip(sources, read, strict=True):
        memory_bytes -= extent.footer_bytes
        extents.append(extent)
        if too_many or memory_bytes < 0:
            source.close()
    return extents


@dataclass(frozen=True)
class Extent:
    """The size of a counter, as if it held all shares of the hashes; partition_bytes: of the largest in memory."""

    footer_bytes: int
    partition_bytes: int
    partitions: int
    rows: int
    pre_token_bytes: int


def partitions_of(extents: Sequence[Extent], shares: int, most_bytes: int | None = None) -> int:
    """Return the number of partitions of the sum: the finest counter's, or more, so that none exceeds `most_bytes`."""
    rows = sum(e.rows for e in extents)
    together = partitions_for(rows, sum(e.pre_token_bytes for e in extents))
    partitions = max(shares, together // 2, *(extent.partitions for extent in extents))
    if most_bytes is not None:
        size = sum(e.partition_bytes * e.partitions for e in extents)
        while partitions * max(most_bytes, _LEAST_PARTITION_BYTES) < size and partitions < rows:
            partitions *= 2
    return partitions


def threads_for(extents: Sequence[Extent], shares: int, threads: int, memory_bytes: int) -> int:
    """Return how many of the threads the memory allows. 0: write each partition before reading the next.

    Each thread holds a partition of each counter, Arrow's copy of the one it reads, and the sum; two more sums wait or
    are being written.
    """
    partitions = partitions_of(extents, shares)
    sizes = [extent.partition_bytes for extent in extents]
    sum_bytes = sum(extent.partition_bytes * extent.partitions // partitions for extent in extents)
    left = memory_bytes - sum(extent.footer_bytes for extent in extents) - 2 * sum_bytes
    return max(0, min(threads, left // max(sum(sizes) + max(sizes, default=0) + sum_bytes, 1)))


def groups_of(extents: Sequence[Extent], threads: int, memory_bytes: int) -> list[list[int]]:
    """Return groups of at least two indices, to be combined one group at a time; one group if all fit the memory."""
    most, groups, filled = _open_files(), [list[int]()], 0
    for index, extent in enumerate(extents):
        needed = 2 * extent.partition_bytes + extent.footer_bytes  # as read, and as combined
        if len(groups[-1]) >= 2 and (len(groups[-1]) >= most or (not threads and filled + needed > memory_bytes)):
            groups.append([])
            filled = 0
        groups[-1].append(index)
        filled += needed
    return groups


def _open_files() -> int:
    """Return how many counters may be open at the same time."""
    allowed = system.most_open_files()
    return _MOST_OPEN_FILES if allowed is None else max(4, min(_MOST_OPEN_FILES, allowed // 2))
