"""Files of ids that workers write for one another; they are deleted when all shards are written.

A file is blocks, each of numbers (8 bytes) and of ids (2 or 4 bytes); a table with a row for each block; and a footer
in JSON with what the file depends on. All numbers are little-endian. A file is whole or absent, and may exceed memory:
each block is checked when it is read. A *part*, the checkpoint of encoding, has the ids of one chunk, or says where
they are in shards (`begun_shards`); its numbers are where documents end in the chunk. A *dealt* file has documents by
bucket: run after run, a block for each bucket; its numbers are two for each document, or stretch of one: its key, and
its ids, with the highest bit set where it ends.

Parquet has no numbers of two bytes, so its files were twice as large and took six times as long to write.
Documents are read in the order of the shards: slices of parts, or buckets of dealt files, which are sorted in memory
or, if too large for that, read document by document.
"""

import contextlib
import json
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, takewhile
from operator import sub
from typing import IO, Any, NamedTuple

from pipeline import _core
from pipeline.base.errors import RunDirectoryError
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.run.stored import stored
from pipeline.shards.formats.shard_format import ID_CODES, Block
from pipeline.storage import Location, OpenFile, open_file

NUMBER_BYTES = 8
_TAIL = struct.Struct("<QQ16s")  # of the footer: its checksum, its length in bytes, the mark
_MARK = b"bpe-pipeline/ids"
_SHORT = 1 << 19  # ids of a document that takes less memory than a group of rows
_ROW = 6  # columns of the table: those of `BlockRow`, and the row's own checksum


def part_name(chunk: int) -> str:
    """Return the name of the part of a chunk."""
    return f"{chunk:06d}.ids"


class BlockRow(NamedTuple):
    """Where a block's numbers are, how many ids and numbers it has, and the checksums of both."""

    start: int
    ids: int
    numbers: int
    ids_hash: int
    numbers_hash: int


class StoredIds(NamedTuple):
    """Where a file is, and the fingerprint of what it depends on."""

    path: Location
    fingerprint: str


@dataclass(frozen=True)
class Part:
    """What a part holds. rest: its last ids, of a document that continues in the next part.

    first: its ids up to the first end of a document; longest: of one that starts and ends in it, or less than `_SHORT`.

    at: the position of its first id among those of the corpus, if its ids are in shards; pieces: of each of these the
    number of the first id there, the CRC-32 of all there, and the inode; earlier: whether an earlier run wrote it.
    about: what a guest stores of the rows that it made.
    """

    ids: int
    statistics: ChunkStatistics
    documents: int
    rest: int
    first: int = 0
    longest: int = 0
    at: int | None = None
    pieces: tuple[tuple[int, int, int], ...] = ()
    earlier: bool = False
    about: dict[str, Any] = field(default_factory=dict)


class IdsWriter:
    """Writes one file of ids to an open file. elsewhere: whether only the numbers of blocks are written."""

    elsewhere = False

    def __init__(self, file: IO[bytes], id_bytes: int) -> None:
        self._file, self._id_bytes, self._at = file, id_bytes, 0
        self._table = array("Q")
        self._last = self._longest = 0  # the last number of the blocks so far, and the largest difference of two
        self._first: int | None = None

    def add(self, ids: memoryview, numbers: memoryview) -> None:
        """Write a block."""
        ids, numbers = ids.cast("B"), numbers.cast("B")
        counts = ids.nbytes // self._id_bytes, numbers.nbytes // NUMBER_BYTES
        row = array("Q", [self._at, *counts, _core.hash64(ids), _core.hash64(numbers)])
        self._table += row
        self._table.append(_core.hash64(row))
        own = b"" if self.elsewhere else ids
        self._at += self._file.write(numbers) + self._file.write(own)
        if numbers:
            self._take_ends(numbers.cast("Q"))

    def _take_ends(self, ends: memoryview) -> None:
        """Note the longest document, as far as it is long: where many short ones end, they are not looked at."""
        if self._first is None:
            self._first = self._last = ends[0]
        longest = max(self._longest, ends[0] - self._last)
        if ends[-1] - ends[0] > max(longest, _SHORT):
            longest = max(longest, *map(sub, ends[1:], ends))
        self._longest, self._last = longest, ends[-1]

    def finish(self, fingerprint: str, **more: Any) -> None:
        """Write the table and the footer, the end of the file."""
        own = {"fingerprint": fingerprint, "id_bytes": self._id_bytes, "blocks": len(self._table) // _ROW}
        footer = json.dumps({**own, **more}).encode()
        tail = _TAIL.pack(_core.hash64(footer), len(footer), _MARK)
        self._file.write(self._table.tobytes() + footer + tail)

    def finish_part(self, fingerprint: str, statistics: ChunkStatistics, **more: Any) -> Part:
        """Write the end of a part. more: of `Part`, such as where its ids are."""
        ids, documents = sum(self._table[1::_ROW]), sum(self._table[2::_ROW])
        first = ids if self._first is None else self._first
        part = Part(ids, statistics, documents, ids - self._last, first, self._longest, **more)
        self.finish(fingerprint, **asdict(part))
        return part


class IdsFile:
    """An open file of ids. Whatever is read raises `RunDirectoryError` if it is damaged."""

    def __init__(self, where: Location, file: OpenFile, fingerprint: str) -> None:
        self._where, self._file = where, file
        stop = max(file.seek(0, 2) - _TAIL.size, 0)
        checksum, length, mark = _TAIL.unpack(file.read_at(stop, _TAIL.size).ljust(_TAIL.size))
        if mark != _MARK or length > stop:
            raise damaged(where, "it is not whole")
        data = file.read_at(stop - length, length)
        if _core.hash64(data) != checksum:
            raise damaged(where, "its footer is not as it was written")
        self.footer: Mapping[str, Any] = json.loads(data)
        if fingerprint not in ("", self.footer["fingerprint"]):
            raise damaged(where, "it is of another chunk")
        self.id_bytes: int = self.footer["id_bytes"]
        self.blocks: int = self.footer["blocks"]
        self._table_at = stop - length - 8 * _ROW * self.blocks

    def rows(self, first: int = 0, count: int | None = None) -> Iterator[BlockRow]:
        """Yield rows of the table; None: all from the first."""
        size = 8 * _ROW * (self.blocks - first if count is None else count)
        data = self._file.read_at(self._table_at + 8 * _ROW * first, size)
        for at in range(0, size, 8 * _ROW):
            row = array("Q", data[at : at + 8 * _ROW])
            if _core.hash64(row[:-1]) != row[-1]:
                raise damaged(self._where, "its table is not as it was written")
            yield BlockRow(*row[:-1])

    def ids(self, row: BlockRow) -> bytes:
        """Return the ids of a block."""
        start = row.start + row.numbers * NUMBER_BYTES
        return checked(self._where, self._file, start, row.ids * self.id_bytes, row.ids_hash)

    def numbers(self, row: BlockRow) -> "array[int]":
        """Return the numbers of a block."""
        size = row.numbers * NUMBER_BYTES
        return array("Q", checked(self._where, self._file, row.start, size, row.numbers_hash))


def checked(where: Location, file: OpenFile, start: int, size: int, checksum: int) -> bytes:
    """Return bytes of an open file; raises `RunDirectoryError` if they do not have this checksum."""
    data = file.read_at(start, size)
    if len(data) != size or _core.hash64(data) != checksum:
        raise damaged(where, "a block of it is not as it was written")
    return data


def damaged(where: Location, reason: str) -> RunDirectoryError:
    """Return the error for a file of ids that is not what was written."""
    return RunDirectoryError(f"{where} is damaged ({reason}); remove that file and run the same command again")


@contextlib.contextmanager
def open_ids(where: Location, fingerprint: str = "") -> Iterator[IdsFile]:
    """Open a file of ids; raises `RunDirectoryError` if it is damaged or, unless that is "", of another fingerprint."""
    with open_file(where) as file:
        yield IdsFile(where, file, fingerprint)


def found_ids(where: Location, fingerprint: str) -> Mapping[str, Any] | None:
    """Return the footer of a file; None if there is no such file, or not a whole one of this fingerprint."""
    try:
        with open_ids(where, fingerprint) as file:
            for _ in file.rows():
                pass
            return file.footer
    except (FileNotFoundError, RunDirectoryError):
        return None


def part_of(where: Location, fingerprint: str) -> Part | None:
    """Return what a part holds; None if no part is there, or not one of this fingerprint."""
    footer = found_ids(where, fingerprint)
    return None if footer is None else stored(Part, footer)


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
            yield BucketReader(source, [files.enter_context(open_ids(*one)) for one in source.files])


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


class ShardIds(NamedTuple):
    """A shard with ids of a part that has none itself, and the byte where the first one of the part is or would be."""

    where: Location
    file: OpenFile
    start: int


class PartReader:
    """Reads an open part."""

    def __init__(self, file: IdsFile) -> None:
        self._file, self._rows = file, list(file.rows())
        self._firsts = list(accumulate((row.ids for row in self._rows), initial=0))
        self.pieces = {first: (crc32, inode) for first, crc32, inode in file.footer.get("pieces", ())}
        self.row_numbers = list(accumulate((row.numbers for row in self._rows), initial=0))  # of each block's first

    def blocks(self, of: Slice, shard: ShardIds | None = None) -> Iterator[Block]:
        """Yield the ids of a slice, and where documents end in it; those that are not in the part only with `shard`."""
        first = max(bisect_left(self._firsts, of.start) - 1, 0)
        yield from _cut(((self._firsts[at], self._block(at, of, shard)) for at in range(first, len(self._rows))), of)

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

    def _block(self, number: int, of: Slice, shard: ShardIds | None = None) -> Block:
        """Return a block, without the ids of one that is outside the slice."""
        row, first, id_bytes = self._rows[number], self._firsts[number], self._file.id_bytes
        ids = b""
        if first < of.stop and first + row.ids > of.start:
            if shard is not None:
                start = shard.start + first * id_bytes
                ids = checked(shard.where, shard.file, start, row.ids * id_bytes, row.ids_hash)
            elif not self.pieces:
                ids = self._file.ids(row)
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
                own = memoryview(bytes(size * id_bytes))
            else:
                if run != loaded:
                    loaded, data = run, memoryview(runs[run][0].ids(runs[run][1]))
                low = (before[entry] - firsts[run]) * id_bytes
                own = data[low : low + size * id_bytes]
            yield at, (own.cast(ID_CODES[id_bytes]), array("Q", [at + size] if sizes[entry] & _ENDED else []))
            at += size


def _rows_of(file: IdsFile, bucket: Bucket) -> Iterator[BlockRow]:
    """Yield the rows of a bucket in the table of a dealt file, one for each run."""
    for first in range(bucket.index, file.blocks, bucket.buckets):
        yield from file.rows(first, 1)
