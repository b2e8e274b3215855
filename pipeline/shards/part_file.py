"""Parts: the ids of one chunk as a file, the checkpoint of encoding, deleted when all shards are written.

A part is blocks, each of ids (2 or 4 bytes) and of where documents end in the chunk (numbers of ids, 8 bytes); then a
footer in JSON with the blocks' checksums and what the part depends on. All numbers are little-endian. A part is whole
or absent. Shards are slices of parts, and a part may exceed memory, so each block is checked when it is read.
"""

import contextlib
import json
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import IO, Any, NamedTuple

from pipeline import _core
from pipeline.base.errors import RunDirectoryError
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.shards.formats.shard_format import ID_CODES, Block
from pipeline.storage import Location, OpenFile, open_file

_TAIL = struct.Struct("<QQ16s")  # of the footer: its checksum, its length in bytes, the mark
_MARK = b"bpe-pipeline/ids"
_END_BYTES = 8


@dataclass(frozen=True)
class Part:
    """What a part holds: the number of ids, the statistics of its chunk, and how many documents end in it."""

    ids: int
    statistics: ChunkStatistics
    documents: int


class PartWriter:
    """Writes one part to an open file."""

    def __init__(self, file: IO[bytes], id_bytes: int) -> None:
        self._file, self._id_bytes = file, id_bytes
        self._blocks: list[tuple[int, int, int]] = []

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """Write a block."""
        if len(ids) or len(ends):
            data = b"".join((ids, ends))
            self._file.write(data)
            self._blocks.append((len(ids), len(ends), _core.hash64(data)))

    def finish(self, fingerprint: str, statistics: ChunkStatistics) -> Part:
        """Write the footer, the end of the file."""
        footer = {"fingerprint": fingerprint, "id_bytes": self._id_bytes, "statistics": asdict(statistics)}
        self._file.write(footer_bytes({**footer, "blocks": self._blocks}))
        ids, ends = (sum(block[column] for block in self._blocks) for column in (0, 1))
        return Part(ids, statistics, ends)


def footer_bytes(footer: dict[str, Any]) -> bytes:
    """Return the end of a file that holds ids."""
    data = json.dumps(footer).encode()
    return data + _TAIL.pack(_core.hash64(data), len(data), _MARK)


@dataclass(frozen=True)
class Slice:
    """The ids [start, stop) of one part. with_start: documents that end at `start` are counted here, not before."""

    part: int
    start: int
    stop: int
    with_start: bool


class StoredPart(NamedTuple):
    """Where a part is, or a dealt file, and the fingerprint of what it depends on."""

    path: Location
    fingerprint: str


@contextlib.contextmanager
def open_footer(where: Location, fingerprint: str) -> Iterator[tuple[OpenFile, dict[str, Any]]]:
    """Open a file that holds ids; raises `RunDirectoryError` if it is damaged or depends on something else."""
    with open_file(where) as file:
        stop = max(file.seek(0, 2) - _TAIL.size, 0)
        checksum, length, mark = _TAIL.unpack(file.read_at(stop, _TAIL.size).ljust(_TAIL.size))
        if mark != _MARK or length > stop:
            raise damaged(where, "it is not whole")
        data = file.read_at(stop - length, length)
        if _core.hash64(data) != checksum:
            raise damaged(where, "its footer is not as it was written")
        footer = json.loads(data)
        if footer["fingerprint"] != fingerprint:
            raise damaged(where, "it is of another chunk")
        yield file, footer


@contextlib.contextmanager
def open_part(where: Location, fingerprint: str) -> Iterator["PartReader"]:
    """Open a part; raises `RunDirectoryError` if it is damaged or depends on something else."""
    with open_footer(where, fingerprint) as (file, footer):
        yield PartReader(where, file, footer)


class PartReader:
    """Reads an open part. Each block that is read raises `RunDirectoryError` if it is damaged."""

    def __init__(self, where: Location, file: OpenFile, footer: dict[str, Any]) -> None:
        self._where, self._file = where, file
        self._id_bytes: int = footer["id_bytes"]
        self._blocks: list[tuple[int, int, int]] = footer["blocks"]  # ids, ends and checksum of each
        sizes = (self._id_bytes * ids + _END_BYTES * ends for ids, ends, _ in self._blocks)
        self._offsets = list(accumulate(sizes, initial=0))
        self._firsts = list(accumulate((ids for ids, _, _ in self._blocks), initial=0))
        self.row_numbers = list(accumulate((ends for _, ends, _ in self._blocks), initial=0))  # of each block's first
        self.part = Part(self._firsts[-1], ChunkStatistics.from_values(footer["statistics"]), self.row_numbers[-1])

    def blocks(self, of: Slice) -> Iterator[Block]:
        """Yield the ids of a slice, and where documents end in it."""
        for number in range(max(bisect_left(self._firsts, of.start) - 1, 0), len(self._blocks)):
            first = self._firsts[number]
            if first > of.stop:
                break
            ids, ends = self._block(number)
            low, high = min(max(of.start - first, 0), len(ids)), min(of.stop - first, len(ids))
            least = of.start if of.with_start else of.start + 1
            yield ids[low:high], ends[bisect_left(ends, least) : bisect_right(ends, of.stop)]

    def all_ends(self) -> "array[int]":
        """Return where documents end in the whole part; only they are read, and they are not checked."""
        found = array("Q")
        for (ids, ends, _), start in zip(self._blocks, self._offsets, strict=False):
            found.frombytes(self._file.read_at(start + self._id_bytes * ids, _END_BYTES * ends))
        return found

    def block(self, number: int) -> Block:
        """Return one block: its ids, and where documents end, counted from the first id of the block."""
        ids, ends = self._block(number)
        first = self._firsts[number]
        return ids, array("Q", (end - first for end in ends)) if first else ends

    def last_end(self, stop: int) -> int | None:
        """Return the last position up to `stop` where a document ends, or None."""
        for number in range(min(bisect_right(self._firsts, stop), len(self._blocks)) - 1, -1, -1):
            if self._blocks[number][1]:
                ends = self._block(number)[1]
                if at := bisect_right(ends, stop):
                    return ends[at - 1]
        return None

    def _block(self, number: int) -> Block:
        ids, _, checksum = self._blocks[number]
        start, stop = self._offsets[number : number + 2]
        data = self._file.read_at(start, stop - start)
        if len(data) != stop - start or _core.hash64(data) != checksum:
            raise damaged(self._where, f"block {number} is not as it was written")
        border = self._id_bytes * ids
        return memoryview(data)[:border].cast(ID_CODES[self._id_bytes]), array("Q", data[border:])


def part_of(where: Location, fingerprint: str) -> Part | None:
    """Return what a part holds according to its footer; None if no part is there, or not one of this fingerprint."""
    try:
        with open_part(where, fingerprint) as reader:
            return reader.part
    except (FileNotFoundError, RunDirectoryError):
        return None


def damaged(where: Location, reason: str) -> RunDirectoryError:
    """Return the error for a damaged file of ids."""
    return RunDirectoryError(f"{where} is damaged ({reason}); remove that file and run the same command again")
