"""Bucket files: ids end to end, behind the space of a header, and the numbers of their documents.

They are hidden files, `.NAME.ids` and `.NAME.ends`. The numbers are the ends of documents or, in a bucket whose
documents will be sorted, two for each document: its sort key, and its ids with the highest bit set.
"""

import os
import stat
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Protocol

from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.shards.formats import BLOCK_IDS, ID_CODES, Block, Layout, Rows, ShardFormat, row_bytes

_NUMBER_BYTES = 8
_READ_BYTES = 1 << 20
FREE_TOKENS = 1 << 20  # of a row, for which the memory of any worker is enough
MOST_ROW = 1 << 26  # ids, as of rows that are packed
REMEDY = "remove it, or free disk space, and run the same command again"


@dataclass(frozen=True)
class Extent:
    """How much a bucket has: ids, numbers, and the CRC-32 of both files up to there."""

    ids: int = 0
    numbers: int = 0
    ids_crc32: int = 0
    numbers_crc32: int = 0


@dataclass(frozen=True)
class ClosedShard:
    """A shard that gets no more ids: its ids, and the documents that end in it. crc32: of its file, if it is known."""

    index: int
    ids: int
    documents: int
    crc32: int | None = None


@dataclass(frozen=True)
class BucketFiles:
    """The files of a bucket. name: of both, before their endings; header: what is before the ids.

    with_numbers: whether the second file is written.
    """

    directory: Path
    name: str
    id_bytes: int
    header: bytes = b""
    with_numbers: bool = True

    @property
    def ids(self) -> Path:
        """Where its ids are."""
        return self.directory / f".{self.name}.ids"

    @property
    def numbers(self) -> Path:
        """Where the numbers of its documents are."""
        return self.directory / f".{self.name}.ends"

    def written(self, ids: int = 0, numbers: int = 0) -> Iterator[tuple[Path, int]]:
        """Yield each file that is written, and its bytes where the bucket has that much."""
        yield self.ids, len(self.header) + ids * self.id_bytes
        if self.with_numbers:
            yield self.numbers, numbers * _NUMBER_BYTES

    def cut(self, ids: int, numbers: int) -> None:
        """Cut off what is behind that much, so that the sizes of the files say what the bucket has."""
        for path, size in self.written(ids, numbers):
            os.truncate(path, size)

    def size(self) -> tuple[int, int]:
        """Return how many ids and numbers the files have."""
        numbers = self.numbers.stat().st_size // _NUMBER_BYTES if self.with_numbers else 0
        return (self.ids.stat().st_size - len(self.header)) // self.id_bytes, numbers

    def number_blocks(self, count: int, block: int = BLOCK_IDS) -> "Iterator[array[int]]":
        """Yield the first numbers, if they are kept."""
        with self.numbers.open("rb") if self.with_numbers else nullcontext(BytesIO()) as file:
            for first in range(0, count, block):
                yield array("Q", file.read(min(count - first, block) * _NUMBER_BYTES))

    def blocks(self, start: int, stop: int, documents: int = 0) -> Iterator[Block]:
        """Yield the ids from `start` to `stop`, and where the first of its documents end, counted from the first id."""
        end_blocks, ends = self.number_blocks(documents), array("Q")
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

    def remove(self) -> None:
        """Remove both files."""
        for path in (self.ids, self.numbers):
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class LongRow:
    """The longest row of a set of shards, all of which is in memory at once.

    tokens: of the row, if its format gathers them; together: tokens of all rows that are made with it, 0 if it is read
    as it is; token_bytes: of each token that they are made of.
    """

    tokens: int
    together: int = 0
    token_bytes: int = 0

    def memory_bytes(self, format_: ShardFormat, layout: Layout) -> int:
        """Return what it takes in addition to the memory that is enough for short rows."""
        by_format = format_.memory_bytes(layout)
        read, packed = (max(tokens - FREE_TOKENS, 0) for tokens in (self.tokens, self.together))
        row, packing = row_bytes(layout), packed * self.token_bytes
        if by_format is None:
            return packing + packed * row
        return packing + max(read, packed) * row + max(read * by_format, packed * row)


RowsAndFacts = tuple[Iterator[Rows], Callable[[int], dict[str, Any]]]
"""Rows of a shard, and what returns the facts of it that differ from its bucket's, once that many rows are written."""


class ShardRows(Protocol):
    """How the documents in buckets become rows. cut: the multiple of tokens at which a document longer than a shard is
    cut; None if it is not. whole: whether a shard ends with a document, unless that is cut. unit: the tokens that fill
    a row, where a shard has no others; least: those of the smallest shard that can be asked for. as_stored: whether the
    tokens of rows are those of the bucket, in its order.
    """

    @property
    def layout(self) -> Layout:
        """What the rows have."""

    @property
    def whole(self) -> bool: ...  # noqa: D102 - see above

    @property
    def cut(self) -> int | None: ...  # noqa: D102 - see above

    @property
    def unit(self) -> int: ...  # noqa: D102 - see above

    @property
    def least(self) -> int: ...  # noqa: D102 - see above

    @property
    def as_stored(self) -> bool: ...  # noqa: D102 - see above

    def longest(self, tokens: int, documents: int, document_tokens: int, /) -> LongRow:
        """Return the longest row of shards with at most that many tokens.

        document_tokens: of the longest document, if they are more than `FREE_TOKENS`.
        """

    def made(self, format_: ShardFormat, bucket: BucketFiles, tokens: int, documents: int, /) -> RowsAndFacts:
        """Return the rows of a bucket with that many tokens and documents, and what is known when they are written."""


class OpenBucket:
    """A bucket to append to; what another attempt left is dropped. Errors are `RunDirectoryError`."""

    def __init__(self, files: BucketFiles) -> None:
        self.files, self.extent = files, Extent(ids_crc32=zlib.crc32(files.header))
        self._open = list[IO[bytes]]()

    def resume(self, extent: Extent) -> bool:
        """Keep this much of what another attempt left; returns whether it is as it was written."""
        self.extent, whole = extent, True
        crc32s = extent.ids_crc32, extent.numbers_crc32
        with self._writing():
            for (path, size), crc32 in zip(self.files.written(extent.ids, extent.numbers), crc32s, strict=False):
                self._open.append(own_file(path))
                whole &= _cut_back(self._open[-1], size) == crc32
        return whole

    def append(self, ids: memoryview, numbers: memoryview) -> None:
        """Add ids, and numbers of documents."""
        known = self.extent
        with self._writing():
            for file, data in zip(self._begun(), (ids, numbers), strict=False):
                file.write(data)
        crc32 = zlib.crc32(ids, known.ids_crc32)
        numbers_crc32 = zlib.crc32(numbers, known.numbers_crc32) if self.files.with_numbers else 0
        self.extent = Extent(known.ids + len(ids), known.numbers + len(numbers), crc32, numbers_crc32)

    def _begun(self) -> list[IO[bytes]]:
        """Return the files, made exclusively: a suspended process may have those open that another attempt left."""
        if not self._open:
            self.files.remove()
            for path, _ in self.files.written():
                self._open.append(own_file(path, os.O_EXCL))
            self._open[0].write(self.files.header)
        return self._open

    def sync(self) -> None:
        """Wait until what was appended is on disk."""
        self.flush()
        with self._writing():
            for file in self._open:
                os.fsync(file.fileno())

    def flush(self) -> None:
        """Let what was appended be read from the files."""
        with self._writing():
            for file in self._begun():
                file.flush()

    def close(self) -> None:
        """Close the files."""
        with self._writing(), ExitStack() as closing:
            for file in self._open:
                closing.callback(file.close)

    def _writing(self) -> AbstractContextManager[None]:
        return os_error_as(RunDirectoryError, f"{self.files.ids} cannot be written", REMEDY)


def own_file(path: Path, flag: int = 0) -> IO[bytes]:
    """Open a file to read and write, or begin it; raises `RunDirectoryError`, also for a link or a second name."""
    with os_error_as(RunDirectoryError, f"{path} cannot be written", REMEDY):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | flag, 0o666)
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
