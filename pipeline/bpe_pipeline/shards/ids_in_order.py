"""Ids in the order of the shards: slices of parts, or buckets of dealt files.

A bucket is sorted in memory or, if too large for that, read document by document.
"""

import contextlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from bpe_pipeline import _core
from bpe_pipeline.shards.formats.shard_format import ID_CODES, Block
from bpe_pipeline.shards.ids_file import BlockRow, IdsFile, StoredIds, open_ids

_ENDED = 1 << 63
_IN_MEMORY = 4  # a bucket takes this many times its bytes


@dataclass(frozen=True)
class Slice:
    """The ids [start, stop) of one source. with_start: documents that end at `start` are counted here, not before."""

    part: int
    start: int
    stop: int
    with_start: bool


@dataclass(frozen=True)
class Bucket:
    """One bucket of dealt files, in the order of the corpus. memory_bytes: for reading it."""

    files: tuple[StoredIds, ...]
    index: int
    buckets: int
    memory_bytes: int


Source = StoredIds | Bucket


@contextlib.contextmanager
def open_part(part: StoredIds) -> "Iterator[PartReader]":
    """Open a part; raises `RunDirectoryError` if it is damaged or of something else."""
    with open_ids(*part) as file:
        yield PartReader(file)


@contextlib.contextmanager
def open_source(source: Source) -> "Iterator[BucketReader | PartReader]":
    """Open a part or a bucket, as `open_part` does."""
    with contextlib.ExitStack() as files:
        if isinstance(source, StoredIds):
            yield files.enter_context(open_part(source))
        else:
            yield BucketReader(source, [files.enter_context(open_ids(*file)) for file in source.files])


def documents_in(slices: Iterable[tuple[Source, Slice]], advance: Callable[[int], object]) -> Iterator[Block]:
    """Yield the blocks of slices in turn, ends counted from the first id; `advance` receives the size of each."""
    before = 0
    for source, part in slices:
        with open_source(source) as reader:
            shift = before - part.start
            for ids, ends in reader.blocks(part):
                yield ids, array("Q", (end + shift for end in ends)) if shift else ends
                advance(len(ids))
        before += part.stop - part.start


def _cut(blocks: Iterable[tuple[int, Block]], of: Slice) -> Iterator[Block]:
    """Yield what blocks have of a slice; each is with the number of its first id."""
    least = of.start if of.with_start else of.start + 1
    for first, (ids, ends) in blocks:
        if first > of.stop:
            break
        low, high = min(max(of.start - first, 0), len(ids)), min(of.stop - first, len(ids))
        yield ids[low:high], ends[bisect_left(ends, least) : bisect_right(ends, of.stop)]


class PartReader:
    """Reads an open part."""

    def __init__(self, file: IdsFile) -> None:
        self._file, self._rows = file, list(file.rows())
        self._firsts = list(accumulate((row.ids for row in self._rows), initial=0))
        self.row_numbers = list(accumulate((row.numbers for row in self._rows), initial=0))  # of each block's first

    def blocks(self, of: Slice) -> Iterator[Block]:
        """Yield the ids of a slice, and where documents end in it."""
        first = max(bisect_left(self._firsts, of.start) - 1, 0)
        yield from _cut(((self._firsts[at], self._block(at, of)) for at in range(first, len(self._rows))), of)

    def ends(self) -> Iterator["array[int]"]:
        """Yield where documents end, block by block; ids are not read."""
        return map(self._file.numbers, self._rows)

    def block(self, number: int) -> Block:
        """Return one block: its ids, and where documents end, counted from the first id of the block."""
        first = self._firsts[number]
        ids, ends = self._block(number, Slice(0, first, self._firsts[number + 1], with_start=True))
        return ids, array("Q", (end - first for end in ends)) if first else ends

    def last_end(self, stop: int) -> int | None:
        """Return the last position up to `stop` where a document ends, or None."""
        for number in range(min(bisect_right(self._firsts, stop), len(self._rows)) - 1, -1, -1):
            ends = self._file.numbers(self._rows[number])
            if at := bisect_right(ends, stop):
                return ends[at - 1]
        return None

    def next_end(self, start: int) -> int | None:
        """Return the first position after `start` where a document ends, or None."""
        for number in range(max(bisect_left(self._firsts, start) - 1, 0), len(self._rows)):
            ends = self._file.numbers(self._rows[number])
            if (at := bisect_right(ends, start)) < len(ends):
                return ends[at]
        return None

    def _block(self, number: int, of: Slice) -> Block:
        """Return a block, without the ids of one that is outside the slice."""
        row, first, id_bytes = self._rows[number], self._firsts[number], self._file.id_bytes
        inside = first < of.stop and first + row.ids > of.start
        ids = self._file.ids(row) if inside else b""
        return memoryview(ids).cast(ID_CODES[id_bytes]), self._file.numbers(row)


class BucketReader:
    """Reads an open bucket as a part is read."""

    def __init__(self, bucket: Bucket, files: Sequence[IdsFile]) -> None:
        self._memory_bytes, self._id_bytes = bucket.memory_bytes, files[0].id_bytes
        self._runs = [(file, row) for file in files for row in _rows_of(file, bucket) if row.numbers]
        self._words = array("Q")
        for file, row in self._runs:
            self._words += file.numbers(row)

    def blocks(self, of: Slice) -> Iterator[Block]:
        """Yield the ids of a slice, and where documents end in it."""
        yield from _cut(self._sorted(of.start), of)

    def last_end(self, stop: int) -> int | None:
        """Return the last position up to `stop` where a document ends, or None."""
        return max(takewhile(stop.__ge__, self._ends()), default=None)

    def next_end(self, start: int) -> int | None:
        """Return the first position after `start` where a document ends, or None."""
        return next(filter(start.__lt__, self._ends()), None)

    def _ends(self) -> Iterator[int]:
        at = 0
        for entry in _core.order_of(self._words):
            size = self._words[2 * entry + 1]
            at += size & ~_ENDED
            if size & _ENDED:
                yield at

    def _sorted(self, start: int) -> Iterator[tuple[int, Block]]:
        """Yield all documents in order; of a bucket that is too large for memory, without the ids before `start`."""
        runs, id_bytes = self._runs, self._id_bytes
        if sum(row.ids for _, row in runs) * id_bytes * _IN_MEMORY <= self._memory_bytes:
            ids, ends = _core.in_order(self._words, [file.ids(row) for file, row in runs], id_bytes)
            yield 0, (ids.cast(ID_CODES[id_bytes]), array("Q", ends))
            return
        sizes = self._words[1::2]
        run_of = array("I", (run for run, (_, row) in enumerate(runs) for _ in range(row.numbers // 2)))
        before = array("Q", accumulate((size & ~_ENDED for size in sizes), initial=0))  # ids of all runs
        firsts = list(accumulate((row.ids for _, row in runs), initial=0))
        loaded, data, at = -1, memoryview(b""), 0
        for entry in _core.order_of(self._words):
            size, run = sizes[entry] & ~_ENDED, run_of[entry]
            if at + size < start:
                data_of_entry = memoryview(bytes(size * id_bytes))
            else:
                if run != loaded:
                    loaded, data = run, memoryview(runs[run][0].ids(runs[run][1]))
                low = (before[entry] - firsts[run]) * id_bytes
                data_of_entry = data[low : low + size * id_bytes]
            yield at, (data_of_entry.cast(ID_CODES[id_bytes]), array("Q", [at + size] if sizes[entry] & _ENDED else []))
            at += size


def _rows_of(file: IdsFile, bucket: Bucket) -> Iterator[BlockRow]:
    """Yield the rows of a bucket in the table of a dealt file, one for each run."""
    for first in range(bucket.index, file.blocks, bucket.buckets):
        yield from file.rows(first, 1)
