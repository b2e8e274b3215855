"""Parts: the ids of one chunk as a file, the checkpoint of encoding, until shards are made of all parts together.

A part is blocks, each of ids (2 or 4 bytes) and of the places where documents end in the chunk (numbers of ids, 8
bytes); then a footer in JSON that lists the blocks with their checksums and says what the part depends on. All numbers
are little-endian. A part is whole or absent; what is read of it is checked, and where it is not as it was written
`ValueError` says so.
"""

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import IO, Any

from pipeline import _core
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.storage import Location, OpenFile, open_file

_MARK = b"bpe-pipeline ids"
_SUM_BYTES, _LENGTH_BYTES = 8, 8
_END_BYTES = 8


@dataclass(frozen=True)
class Part:
    """A part that lies whole: how much it holds, and what its worker said of the chunk."""

    ids: int
    ends: int
    statistics: ChunkStatistics


class PartWriter:
    """Writes one part to an open file."""

    def __init__(self, file: IO[bytes], id_bytes: int) -> None:
        self._file, self._id_bytes = file, id_bytes
        self._blocks: list[tuple[int, int, int]] = []

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """One more block."""
        if len(ids) or len(ends):
            self._file.write(ids)
            self._file.write(ends)
            self._blocks.append((len(ids), len(ends), _checksum(ids, ends)))

    def finish(self, fingerprint: str, statistics: ChunkStatistics) -> Part:
        """The footer, after which nothing follows."""
        footer = {"fingerprint": fingerprint, "id_bytes": self._id_bytes, "statistics": asdict(statistics)}
        data = json.dumps(footer | {"blocks": self._blocks}).encode()
        numbers = _core.hash64(data).to_bytes(_SUM_BYTES, "little") + len(data).to_bytes(_LENGTH_BYTES, "little")
        self._file.write(data + numbers + _MARK)
        return Part(sum(ids for ids, _, _ in self._blocks), sum(ends for _, ends, _ in self._blocks), statistics)


class PartReader:
    """Reads one part; a context manager. Raises `ValueError` where it is damaged or depends on something else."""

    def __init__(self, where: Location, fingerprint: str) -> None:
        self._where = where
        self._file = open_file(where)
        try:
            footer = _footer(self._file)
            if footer["fingerprint"] != fingerprint:
                raise ValueError("it is of another chunk")
        except (KeyError, TypeError, UnicodeDecodeError, ValueError) as error:
            self._file.close()
            raise ValueError(f"{where} is damaged ({error})") from None
        except BaseException:
            self._file.close()
            raise
        self.id_bytes: int = footer["id_bytes"]
        self._blocks: list[tuple[int, int, int]] = [tuple(block) for block in footer["blocks"]]
        sizes = [self.id_bytes * ids + _END_BYTES * ends for ids, ends, _ in self._blocks]
        self._offsets = list(accumulate(sizes, initial=0))
        self._firsts = list(accumulate((ids for ids, _, _ in self._blocks), initial=0))
        self.part = Part(
            self._firsts[-1],
            sum(ends for _, ends, _ in self._blocks),
            ChunkStatistics.from_values(footer["statistics"]),
        )

    def __enter__(self) -> "PartReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def blocks(self, start: int, stop: int, *, with_start: bool) -> Iterator[tuple[memoryview, "array[int]"]]:
        """The ids [start, stop) of the part, and where documents end behind `start` and up to `stop`, block by block.

        with_start: also those that end at `start`.
        """
        least = start if with_start else start + 1
        for number in range(max(bisect_left(self._firsts, start) - 1, 0), len(self._blocks)):
            first = self._firsts[number]
            if first > stop:
                break
            ids, ends = self._block(number)
            low, high = min(max(start - first, 0), len(ids)), min(stop - first, len(ids))
            yield ids[low:high], ends[bisect_left(ends, least) : bisect_right(ends, stop)]

    def last_end(self, stop: int) -> int | None:
        """The last place up to `stop` where a document ends, or None."""
        for number in range(min(bisect_right(self._firsts, stop), len(self._blocks)) - 1, -1, -1):
            if self._blocks[number][1]:
                _, ends = self._block(number)
                if at := bisect_right(ends, stop):
                    return ends[at - 1]
        return None

    def _block(self, number: int) -> tuple[memoryview, "array[int]"]:
        ids, ends, checksum = self._blocks[number]
        size = self._offsets[number + 1] - self._offsets[number]
        data = memoryview(self._file.read_at(self._offsets[number], size))
        if len(data) != size:
            raise ValueError(f"{self._where} is damaged (it ends in block {number})")
        tokens = data[: self.id_bytes * ids].cast("H" if self.id_bytes == 2 else "I")
        places = array("Q", bytes(data[self.id_bytes * ids :]))
        if _checksum(tokens, memoryview(places)) != checksum or len(places) != ends:
            raise ValueError(f"{self._where} is damaged (block {number} is not as it was written)")
        return tokens, places


def look_at_part(where: Location, fingerprint: str) -> Part | None:
    """What a part says of itself; None where there is none that is whole and depends on this."""
    try:
        with PartReader(where, fingerprint) as reader:
            return reader.part
    except (FileNotFoundError, ValueError):
        return None


def _checksum(ids: memoryview, ends: memoryview) -> int:
    return _core.hash64(ids) ^ (_core.hash64(ends) * 3 & 0xFFFFFFFFFFFFFFFF)


def _footer(file: OpenFile) -> dict[str, Any]:
    size = file.seek(0, 2)
    tail_bytes = _SUM_BYTES + _LENGTH_BYTES + len(_MARK)
    tail = file.read_at(max(size - tail_bytes, 0), tail_bytes)
    length = int.from_bytes(tail[_SUM_BYTES : _SUM_BYTES + _LENGTH_BYTES], "little")
    if tail[-len(_MARK) :] != _MARK or length > size - tail_bytes:
        raise ValueError("it is not whole")
    data = file.read_at(size - tail_bytes - length, length)
    if _core.hash64(data) != int.from_bytes(tail[:_SUM_BYTES], "little"):
        raise ValueError("its footer is not as it was written")
    footer: dict[str, Any] = json.loads(data)
    return footer
