"""Files of ids that workers write for one another; they are deleted when all shards are written.

A file is blocks, each of numbers (8 bytes) and of ids (2 or 4 bytes); a table with a row for each block; and a footer
in JSON with what the file depends on. All numbers are little-endian. A file is whole or absent, and may exceed memory:
each block is checked when it is read. A *part* has the ids of one chunk, and its numbers are where documents end in
the chunk. A *dealt* file has documents by
bucket: run after run, a block for each bucket; its numbers are two for each document, or stretch of one: its key, and
its ids, with the highest bit set where it ends.

Parquet has no numbers of two bytes, so its files were twice as large and took six times as long to write.
"""

import contextlib
import json
import struct
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from operator import sub
from typing import IO, Any, NamedTuple

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.stored import stored
from bpe_pipeline.storage import Location, OpenFile, open_file

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
class EncodedChunk:
    """What a part holds. rest: its last ids, of a document that continues in the next part.

    first: its ids up to the first end of a document; longest: of one that starts and ends in it, or less than `_SHORT`.

    about: what an extension stores of the rows that it made.
    """

    ids: int
    statistics: ChunkStatistics
    documents: int
    rest: int
    first: int = 0
    longest: int = 0
    about: dict[str, Any] = field(default_factory=dict)


class LongestDocument:
    """The ids of the longest document, or fewer than `_SHORT` if all are short, and where the last one ended."""

    def __init__(self, longest: int = 0, last: int = 0) -> None:
        self.longest, self.last = longest, last

    def add(self, ends: memoryview, shift: int = 0) -> None:
        """Take where documents end, less `shift`. Where many short ones do, they are not looked at one by one."""
        if not ends:
            return
        longest = max(self.longest, ends[0] + shift - self.last)
        if ends[-1] - ends[0] > max(longest, _SHORT):
            longest = max(longest, *map(sub, ends[1:], ends))
        self.longest, self.last = longest, ends[-1] + shift


class IdsWriter:
    """Writes one file of ids to an open file."""

    def __init__(self, file: IO[bytes], id_bytes: int) -> None:
        self._file, self._id_bytes, self._at = file, id_bytes, 0
        self._table = array("Q")
        self._documents = LongestDocument()
        self._first: int | None = None

    def add(self, ids: memoryview, numbers: memoryview) -> None:
        """Write a block."""
        ids, numbers = ids.cast("B"), numbers.cast("B")
        counts = ids.nbytes // self._id_bytes, numbers.nbytes // NUMBER_BYTES
        row = array("Q", [self._at, *counts, _core.hash64(ids), _core.hash64(numbers)])
        self._table += row
        self._table.append(_core.hash64(row))
        self._at += self._file.write(numbers) + self._file.write(ids)
        if numbers:
            ends = numbers.cast("Q")
            self._first = ends[0] if self._first is None else self._first
            self._documents.add(ends)

    def finish(self, fingerprint: str, **more: Any) -> None:
        """Write the table and the footer, the end of the file."""
        described = {"fingerprint": fingerprint, "id_bytes": self._id_bytes, "blocks": len(self._table) // _ROW}
        footer = json.dumps(described | more).encode()
        tail = _TAIL.pack(_core.hash64(footer), len(footer), _MARK)
        self._file.write(self._table.tobytes() + footer + tail)

    def finish_part(self, fingerprint: str, statistics: ChunkStatistics, **more: Any) -> EncodedChunk:
        """Write the end of a part. more: of `EncodedChunk`, such as where its ids are."""
        ids, documents = sum(self._table[1::_ROW]), sum(self._table[2::_ROW])
        first = ids if self._first is None else self._first
        longest = self._documents.longest
        part = EncodedChunk(ids, statistics, documents, ids - self._documents.last, first, longest, **more)
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
        if fingerprint != self.footer["fingerprint"]:
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
def open_ids(where: Location, fingerprint: str) -> Iterator[IdsFile]:
    """Open a file of ids; raises `RunDirectoryError` if it is damaged or of another fingerprint."""
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


def part_of(where: Location, fingerprint: str) -> EncodedChunk | None:
    """Return what a part holds; None if no part is there, or not one of this fingerprint."""
    footer = found_ids(where, fingerprint)
    return None if footer is None else stored(EncodedChunk, footer)
