"""Write a chunk's ids straight into its shard once the number of ids in every earlier chunk is known.

A shard that is begun is a hidden file, `.NAME.begun`, renamed when it is complete. A chunk's part, written when its ids
are on disk, says where they are: the parts are the journal, and are removed when all shards are complete. A
chunk that ends before one in front of it, or has too many ids for memory, has them in its part, and they are copied at
the end. This is for shards in local directories, of ids end to end in the order of the corpus that may be cut anywhere.
"""

import contextlib
import os
import stat
import sys
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

from pipeline.base import system
from pipeline.base.errors import RunDirectoryError, os_error_as
from pipeline.shards import formats
from pipeline.shards.formats.shard_format import ID_BYTES, IDS, Layout, ShardFormat
from pipeline.shards.ids_file import EncodedChunk, IdsWriter, open_ids, part_name
from pipeline.shards.packing import layout_of
from pipeline.storage import Location

_MOST_SHARDS = 100_000
MOST_KEPT_BYTES = 64 << 20  # of a chunk
_PATIENCE, _PAUSE_S = 0.15, 0.002  # share of the time of a chunk, and how long at once
_MOST_AHEAD = 32  # a worker does not wait if more than this many earlier offsets are still unknown
_offsets: dict["BegunShards", list[int]] = {}  # ids before each chunk, as far as they are known; of at most one


def begun_path(shard: Path) -> Path:
    """Return where a shard is until it is complete."""
    return shard.with_name(f".{shard.name}.begun")


@dataclass(frozen=True)
class BegunShards:
    """Where the ids of a corpus go.

    single: the name of the only shard; header_bytes: before the ids; most: shards that may be begun; mark: of one
    run of the command; kept_bytes: of memory for the ids of a chunk.
    """

    directory: Path
    format: ShardFormat
    single: str | None
    id_bytes: int
    header_bytes: int
    shard_tokens: int
    most: int
    mark: str = ""
    kept_bytes: int = 0

    def path(self, index: int) -> Path:
        """Return where a shard is when it is complete."""
        name, _ = self.format.names(self.format.stem.format(index=index), Layout({}))
        return self.directory / (self.single or name)

    def begun(self, index: int) -> Path:
        """Return where a shard is until then."""
        return begun_path(self.path(index))

    def names(self) -> list[str]:
        """Return the names of all shards that may be begun."""
        return [self.begun(index).name for index in range(self.most)]

    def holds(self, part: EncodedChunk) -> bool:
        """Return whether the ids of a part are in it, or the shards are long enough to have them."""
        for index, _, stop in self.extents(part.at, part.ids) if part.at is not None else ():
            begun, path, end = self.begun(index), self.path(index), self._byte(index, stop)
            if max(one.stat().st_size if one.exists() else 0 for one in (begun, path)) < end:
                return False
        return True

    def _byte(self, index: int, at: int) -> int:
        """Return where in a shard the id with this position in the corpus is."""
        return self.header_bytes + (at - index * self.shard_tokens) * self.id_bytes

    def extents(self, at: int, ids: int) -> Iterator[tuple[int, int, int]]:
        """Yield each shard that these ids are in, at least one, and the positions of the first and behind the last."""
        end, stop = at + ids, -1
        while stop < end:
            index = at // self.shard_tokens
            stop = min(end, (index + 1) * self.shard_tokens)
            yield index, at, stop
            at = stop

    def take(self, at: int, ids: int) -> bool:
        """Return whether ids may be written in place: their shards are unfinished and have indices below `most`."""
        return all(
            index < self.most and (self.begun(index).exists() or not self.path(index).exists())
            for index, _, _ in self.extents(at, ids)
        )

    def offset(self, part: Location, patience_s: float) -> int | None:
        """Return how many ids are before a chunk, by its part's name; None if not all of these are counted in time."""
        if (offsets := _offsets.get(self)) is None:
            _offsets.clear()
            offsets = _offsets[self] = [0]
        index, deadline = int(part.name.split(".")[0]), time.monotonic() + patience_s
        while len(offsets) <= index:
            try:
                with open_ids(part.with_name(part_name(len(offsets) - 1))) as file:
                    offsets.append(offsets[-1] + file.footer["ids"])
            except (FileNotFoundError, RunDirectoryError):
                if time.monotonic() > deadline or index - len(offsets) > _MOST_AHEAD:
                    return None
                time.sleep(_PAUSE_S)
        return offsets[index]

    @contextlib.contextmanager
    def opened(self, index: int, at: int) -> Iterator[IO[bytes]]:
        """Open a shard that is begun, to write ids from a position on; they are on disk when the block ends.

        Its name is there only after `sync`.
        """
        with open_begun(self.begun(index)) as file:
            file.seek(self._byte(index, at))
            yield file
            file.flush()
            os.fsync(file.fileno())

    def sync(self) -> None:
        """Have the names of all shards that are begun on disk."""
        system.flush(self.directory)


@contextlib.contextmanager
def open_begun(path: Path) -> Iterator[IO[bytes]]:
    """Open a shard that is begun to read and write, or begin it. Raises `RunDirectoryError`, also for a link."""
    with os_error_as(RunDirectoryError, f"{path} cannot be written", "remove it, or free disk space"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "r+b") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise RunDirectoryError(f"{path} has another name, whose content would change: remove it, or that name")
            yield file


class KeptIds:
    """The ids of a chunk, in memory until its end; then they are written to shards, or to its part."""

    def __init__(self, part: IdsWriter, shards: BegunShards | None) -> None:
        self._part, self._shards = part, shards
        self._room = shards.kept_bytes if shards else 0
        self._started = time.monotonic()
        self._blocks: list[tuple[memoryview, memoryview]] = []

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """Take a block; if there is no room for it, this and all others are written to the part."""
        self._blocks.append((ids, ends))
        self._room -= ids.nbytes + ends.nbytes
        if self._room < 0:
            self._write_part()

    def finish(self, output: Location) -> dict[str, Any]:
        """Write what is kept; returns what its part says of ids that are in shards.

        It waits a little for chunks before this one: workers that ended at the same time do not the next time.
        """
        shards, ids = self._shards, sum(len(ids) for ids, _ in self._blocks)
        patience_s = _PATIENCE * (time.monotonic() - self._started)
        at = shards.offset(output, patience_s) if shards and ids else None
        if shards is None or at is None or not shards.take(at, ids):
            self._write_part()
            return {}
        self._part.elsewhere, pieces = True, []
        for index, own in groupby(self._pieces(shards, at), itemgetter(0)):
            crc32, first = 0, max(at, index * shards.shard_tokens)
            with shards.opened(index, first) as file:
                for _, ids_there, ends in own:
                    file.write(ids_there)
                    crc32 = zlib.crc32(ids_there, crc32)
                    self._part.add(ids_there, ends)
                pieces.append((first - at, crc32, os.fstat(file.fileno()).st_ino))
        shards.sync()
        return {"at": at, "pieces": tuple(pieces)}

    def _pieces(self, shards: BegunShards, at: int) -> Iterator[tuple[int, memoryview, memoryview]]:
        """Yield the blocks, cut where shards end, each with the number of its shard: one without ids has the last."""
        first, last = at, at // shards.shard_tokens
        for own, ends in self._blocks:
            done = 0
            for index, start, stop in shards.extents(first, len(own)):
                after = bisect_right(ends, stop - at, done)
                last = index if stop > start else last
                yield last, own[start - first : stop - first], ends[done:after]
                done = after
            first += len(own)

    def _write_part(self) -> None:
        for ids, ends in self._blocks:
            self._part.add(ids, ends)
        self._blocks.clear()


def begun_shards(
    where: Location, options: Mapping[str, Any], single: str | None, corpus_bytes: int
) -> BegunShards | None:
    """Return the shards of an encoding in the corpus's order; None if they are made of parts when all are there."""
    format_ = formats.shard_format(options["shard_format"])
    ids = Layout({IDS: options["dtype"]})
    header = format_.header(ids, 0)
    if not isinstance(where, Path) or header is None or format_.ends_with_row(ids):
        return None
    if layout_of(options, format_) != ids or options["repeat"] > 1:
        return None
    size = sys.maxsize if single else options["shard_size"]
    return BegunShards(
        where,
        format_,
        single,
        id_bytes=ID_BYTES[options["dtype"]],
        header_bytes=len(header),
        shard_tokens=size,
        most=min(1 + 2 * corpus_bytes // size, _MOST_SHARDS),
    )


_POLYNOMIAL = 0xEDB88320  # of CRC-32, the lowest power in the highest bit


def crc32_of_both(one: int, other: int, other_bytes: int) -> int:
    """Return the CRC-32 of two texts, one behind the other, by what each has and the bytes of the second.

    A CRC is linear: each bit behind a text multiplies its own by x (Mark Adler, `crc32_combine` of zlib).
    """
    return _product(_power(8 * other_bytes), one) ^ other


def _product(one: int, other: int) -> int:
    """Return the product of two polynomials modulo that of CRC-32."""
    product = 0
    for bit in range(31, -1, -1):
        product ^= other if one >> bit & 1 else 0
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


def _power(exponent: int) -> int:
    """Return x to a power, modulo the polynomial of CRC-32."""
    power, square = 1 << 31, 1 << 30
    while exponent:
        if exponent & 1:
            power = _product(power, square)
        square = _product(square, square)
        exponent >>= 1
    return power
