"""A shard that is not finished: its ids end to end, behind the space of a header, and where documents end in it.

Both are hidden files where the shard will be, `.NAME.ids` and `.NAME.ends`.
"""

import os
import stat
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO

from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.shards.formats.shard_format import BLOCK_IDS, ID_CODES, Block

_END_BYTES = 8
_READ_BYTES = 1 << 20
REMEDY = "remove it, or free disk space, and run the same command again"


@dataclass(frozen=True)
class Extent:
    """How much a begun shard has: ids, ends of documents, and the CRC-32 of both files up to there."""

    ids: int = 0
    ends: int = 0
    ids_crc32: int = 0
    ends_crc32: int = 0


@dataclass(frozen=True)
class ClosedShard:
    """A shard that gets no more ids: its ids, and the documents that end in it. extent: of its begun files.

    longest: ids of the longest document, or fewer than are looked for if all are short.
    """

    index: int
    ids: int
    documents: int
    extent: Extent
    longest: int


@dataclass(frozen=True)
class BegunFiles:
    """The files of a begun shard. name: of both, before their endings; header: what the shard has before its ids.

    with_ends: whether the ends of documents are kept, and not only counted.
    """

    directory: Path
    name: str
    id_bytes: int
    header: bytes
    with_ends: bool

    @property
    def ids(self) -> Path:
        """Where its ids are."""
        return self.directory / f".{self.name}.ids"

    @property
    def ends(self) -> Path:
        """Where the ends of its documents are."""
        return self.directory / f".{self.name}.ends"

    def end_blocks(self, documents: int) -> "Iterator[array[int]]":
        """Yield where that many documents end, if this is kept."""
        with self.ends.open("rb") if self.with_ends else nullcontext(BytesIO()) as file:
            for first in range(0, documents, BLOCK_IDS):
                yield array("Q", file.read(min(documents - first, BLOCK_IDS) * _END_BYTES))

    def blocks(self, start: int, stop: int, documents: int = 0) -> Iterator[Block]:
        """Yield the ids from `start` to `stop`, and where the first of its documents end, counted from the first id."""
        end_blocks, ends = self.end_blocks(documents), array("Q")
        with self.ids.open("rb") as file:
            file.seek(len(self.header) + start * self.id_bytes)
            for first in range(start, max(stop, start + 1), BLOCK_IDS):
                after = min(first + BLOCK_IDS, stop)
                while not ends or ends[-1] <= after:
                    if not (more := next(end_blocks, None)):
                        break
                    ends += more
                upto = bisect_right(ends, after)
                yield memoryview(file.read((after - first) * self.id_bytes)).cast(ID_CODES[self.id_bytes]), ends[:upto]
                del ends[:upto]

    def remove(self, *, but_ids: bool) -> None:
        """Remove both files, or only the second."""
        for path in (self.ends,) if but_ids else (self.ids, self.ends):
            with suppress(FileNotFoundError):
                path.unlink()


class BegunShard:
    """A begun shard, open to append to; what another attempt left is dropped. Errors are `RunDirectoryError`."""

    def __init__(self, files: BegunFiles) -> None:
        self.files, self.extent = files, Extent(ids_crc32=zlib.crc32(files.header))
        self._leaving = ExitStack()
        self._ids = self._leaving.enter_context(_opened(files.ids))
        self._ends = self._leaving.enter_context(_opened(files.ends)) if files.with_ends else None
        self._is_begun = False

    def resume(self, extent: Extent) -> bool:
        """Keep this much of what another attempt left; returns whether it is as it was written."""
        files = self.files
        with self._writing():
            whole = _cut_back(self._ids, len(files.header) + extent.ids * files.id_bytes) == extent.ids_crc32
            if self._ends is not None:
                whole &= _cut_back(self._ends, extent.ends * _END_BYTES) == extent.ends_crc32
        self.extent, self._is_begun = extent, True
        return whole

    def append(self, ids: memoryview, ends: memoryview, shift: int) -> None:
        """Add ids, and ends of documents, which are `shift` less than their positions in the shard."""
        known = self.extent
        moved = array("Q", (end + shift for end in ends)) if self._ends is not None else array("Q")
        with self._writing():
            if not self._is_begun:
                self._begin()
            self._ids.write(ids)
            if self._ends is not None:
                self._ends.write(moved)
        crc32, ends_crc32 = zlib.crc32(ids, known.ids_crc32), zlib.crc32(moved, known.ends_crc32)
        self.extent = Extent(known.ids + len(ids), known.ends + len(ends), crc32, ends_crc32)

    def _begin(self) -> None:
        self._is_begun = True
        self._ids.truncate(0)
        self._ids.write(self.files.header)
        if self._ends is not None:
            self._ends.truncate(0)

    def sync(self) -> None:
        """Wait until what was appended is on disk."""
        with self._writing():
            for file in filter(None, (self._ids, self._ends)):
                file.flush()
                os.fsync(file.fileno())

    def flush(self) -> None:
        """Let what was appended be read from the files."""
        with self._writing():
            for file in filter(None, (self._ids, self._ends)):
                file.flush()

    def close(self) -> None:
        """Close the files."""
        with self._writing():
            self._leaving.close()

    def _writing(self) -> AbstractContextManager[None]:
        return os_error_as(RunDirectoryError, f"{self.files.ids} cannot be written", REMEDY)


def _opened(path: Path) -> IO[bytes]:
    """Open a file to read and write, or begin it; raises `RunDirectoryError`, also for a link or a second name."""
    with os_error_as(RunDirectoryError, f"{path} cannot be written", REMEDY):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        file = os.fdopen(descriptor, "r+b")
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            file.close()
            raise RunDirectoryError(f"{path} has another name, whose content would change: remove it, or that name")
        return file


def _cut_back(file: IO[bytes], size: int) -> int | None:
    """Cut off what a file has behind `size` bytes; return the CRC-32 of those, None if it has fewer."""
    crc32 = 0
    while size_left := size - file.tell():
        if not (data := file.read(min(size_left, _READ_BYTES))):
            return None
        crc32 = zlib.crc32(data, crc32)
    file.truncate()
    return crc32
