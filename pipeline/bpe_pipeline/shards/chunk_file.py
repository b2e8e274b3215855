"""Chunk files: the ids of one chunk, which a process or a node made for the one writer, and which stay until all shards
are written.

A file is blocks, each of the ends of documents in the chunk (8 bytes) and of ids (2 or 4 bytes); a table with a row for
each block; and a footer in JSON with what the file depends on. All numbers are little-endian. A file is whole or
absent, and may exceed memory: each block is checked when it is read.

Parquet has no numbers of two bytes, so its files were twice as large and took six times as long to write.
"""

import contextlib
import json
import struct
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any, NamedTuple

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.stored import stored
from bpe_pipeline.shards.blocks import IdBlock
from bpe_pipeline.shards.formats.shard_format import ID_CODES
from bpe_pipeline.storage import Location, OpenFile, open_file

_END_BYTES = 8
_TAIL = struct.Struct("<QQ16s")  # of the footer: its checksum, its length in bytes, the mark
_MARK = b"bpe-pipeline/ids"
_ROW = 6  # columns of the table: those of `BlockRow`, and the row's own checksum


def part_name(chunk: int) -> str:
    """Return the name of the file of a chunk."""
    return f"{chunk:06d}.ids"


class BlockRow(NamedTuple):
    """Where a block is, how many ids and ends it has, and the checksums of both."""

    start: int
    ids: int
    ends: int
    ids_hash: int
    ends_hash: int


class StoredIds(NamedTuple):
    """Where a file is, and the fingerprint of what it depends on."""

    path: Location
    fingerprint: str


@dataclass(frozen=True)
class EncodedChunk:
    """What a chunk file holds. documents: that end in it; about: what an extension stores of the rows that it made."""

    ids: int
    statistics: ChunkStatistics
    documents: int
    about: dict[str, Any] = field(default_factory=dict)


class IdsWriter:
    """Writes a chunk file to an open file."""

    def __init__(self, file: IO[bytes], id_bytes: int) -> None:
        self._file, self._id_bytes, self._at = file, id_bytes, 0
        self._table = array("Q")

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """Write a block."""
        ids, ends = ids.cast("B"), ends.cast("B")
        counts = ids.nbytes // self._id_bytes, ends.nbytes // _END_BYTES
        row = array("Q", [self._at, *counts, _core.hash64(ids), _core.hash64(ends)])
        self._table += row
        self._table.append(_core.hash64(row))
        self._at += self._file.write(ends) + self._file.write(ids)

    def finish(self, fingerprint: str, statistics: ChunkStatistics, **more: Any) -> EncodedChunk:
        """Write the table and the footer, the end of the file. more: of `EncodedChunk`."""
        chunk = EncodedChunk(sum(self._table[1::_ROW]), statistics, sum(self._table[2::_ROW]), **more)
        blocks = len(self._table) // _ROW
        described = {"fingerprint": fingerprint, "id_bytes": self._id_bytes, "blocks": blocks}
        footer = json.dumps(described | asdict(chunk)).encode()
        tail = _TAIL.pack(_core.hash64(footer), len(footer), _MARK)
        self._file.write(self._table.tobytes() + footer + tail)
        return chunk


class PartReader:
    """Reads an open chunk file. Whatever is read raises `RunDirectoryError` if it is damaged."""

    def __init__(self, where: Location, file: OpenFile, fingerprint: str) -> None:
        self._where, self._file = where, file
        stop = max(file.seek(0, 2) - _TAIL.size, 0)
        checksum, length, mark = _TAIL.unpack(file.read_at(stop, _TAIL.size).ljust(_TAIL.size))
        if mark != _MARK or length > stop:
            raise _damaged(where, "it is not whole")
        data = file.read_at(stop - length, length)
        if _core.hash64(data) != checksum:
            raise _damaged(where, "its footer is not as it was written")
        self.footer: Mapping[str, Any] = json.loads(data)
        if fingerprint != self.footer["fingerprint"]:
            raise _damaged(where, "it is of another chunk")
        self._id_bytes: int = self.footer["id_bytes"]
        self._rows = list(self._read_rows(stop - length, self.footer["blocks"]))

    def _read_rows(self, stop: int, blocks: int) -> Iterator[BlockRow]:
        size = 8 * _ROW * blocks
        data = self._file.read_at(stop - size, size)
        for at in range(0, size, 8 * _ROW):
            row = array("Q", data[at : at + 8 * _ROW])
            if _core.hash64(row[:-1]) != row[-1]:
                raise _damaged(self._where, "its table is not as it was written")
            yield BlockRow(*row[:-1])

    def blocks(self) -> Iterator[IdBlock]:
        """Yield all blocks, with ends among all ids of the chunk."""
        for row in self._rows:
            data = self._checked(row.start + row.ends * _END_BYTES, row.ids * self._id_bytes, row.ids_hash)
            ends = array("Q", self._checked(row.start, row.ends * _END_BYTES, row.ends_hash))
            yield IdBlock(memoryview(data).cast(ID_CODES[self._id_bytes]), memoryview(ends))

    def _checked(self, start: int, size: int, checksum: int) -> bytes:
        data = self._file.read_at(start, size)
        if len(data) != size or _core.hash64(data) != checksum:
            raise _damaged(self._where, "a block of it is not as it was written")
        return data


def _damaged(where: Location, reason: str) -> RunDirectoryError:
    """Return the error for a chunk file that is not what was written."""
    return RunDirectoryError(f"{where} is damaged ({reason}); remove that file and run the same command again")


@contextlib.contextmanager
def open_part(part: StoredIds) -> Iterator[PartReader]:
    """Open a chunk file; raises `RunDirectoryError` if it is damaged or of another fingerprint."""
    with open_file(part.path) as file:
        yield PartReader(part.path, file, part.fingerprint)


def part_of(part: StoredIds) -> EncodedChunk | None:
    """Return what a chunk file holds; None if there is none, or not a whole one of this fingerprint."""
    try:
        with open_part(part) as reader:
            return stored(EncodedChunk, reader.footer)
    except (FileNotFoundError, RunDirectoryError):
        return None
