"""The formats of shards: one module a format writes rows to files and reads them back.

A format is a `ShardFormat` that an entry point of the group `bpe_pipeline.shard_formats` names, in this package's
`pyproject.toml` as in another's. The name of the entry point is the name of the format and, where a shard is complete
alone, its extension.

A row is what a trainer reads at once: a document, or a block of a fixed number of tokens. Whole files, checksums and
progress are the callers' work. Equal rows give equal bytes, however they are cut into `Rows`.
"""

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, ClassVar, Literal

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.run.values import shard_formats
from bpe_pipeline.storage import Location

Block = tuple[memoryview, "array[int]"]
"""Ids, and where documents end among them: numbers of ids from the first of the shard, uint64."""

BLOCK_IDS = 1 << 18  # of a shard that is read
ID_BYTES = {"uint16": 2, "uint32": 4}
ID_CODES: dict[int, Literal["H", "I"]] = {2: "H", 4: "I"}  # of `array` and `memoryview`
CODES: dict[str, Literal["H", "I", "b", "h", "i", "q"]]
CODES = {"uint16": "H", "uint32": "I", "int8": "b", "int16": "h", "int32": "i", "int64": "q"}  # of columns
IDS = "input_ids"
_GROUP_VALUES, _GROUP_ROWS = 1 << 20, 1 << 16


@dataclass(frozen=True)
class Layout:
    """What all rows of a set of shards have.

    columns: name -> dtype, one of `CODES`; `input_ids` is the first. row_tokens: of each row, if all have the same
    number. documents: whether each row is a document; offsets: whether a second file says where documents end, if the
    format does not keep rows apart by itself.
    """

    columns: Mapping[str, str]
    row_tokens: int | None = None
    documents: bool = True
    offsets: bool = False

    @property
    def id_bytes(self) -> int:
        """Bytes of a value of the first column: a token id, but where another one is read."""
        return value_bytes(next(iter(self.columns.values())))

    def ended(self, facts: "ShardFacts") -> int:
        """Return how many rows of a shard end in it: all but a document that continues in the next shard."""
        return facts.documents if self.documents else facts.samples


@dataclass(frozen=True)
class Rows:
    """Rows end to end. The last may continue in the next `Rows`.

    columns: name -> the values of all rows, as bytes-like objects of the layout's dtypes, the same number in each
    column. ends: where rows end: numbers of values from the first of the shard, uint64.
    """

    columns: Mapping[str, "memoryview | bytes | array[int]"]
    ends: "array[int]"


@dataclass(frozen=True)
class ShardFacts:
    """One shard. documents: that end in it; offsets: its second file, if it has one; rows: if not as many as documents.

    name and offsets are relative to the directory; split: "validation", if it is not of training. tokens: in the files;
    padded, trained_on: of them; truncated: left out of documents longer than a row; dropped: left out at the end.
    """

    name: str
    tokens: int
    documents: int
    bytes: int
    crc32: str
    offsets: str | None = None
    offsets_bytes: int | None = None
    offsets_crc32: str | None = None
    rows: int | None = None
    padded: int | None = None
    truncated: int | None = None
    dropped: int | None = None
    split: str | None = None
    trained_on: int | None = None

    @property
    def samples(self) -> int:
        """Rows in the file."""
        return self.documents if self.rows is None else self.rows


@dataclass(frozen=True)
class ShardFormat(ABC):
    """A format of shards.

    rows: whether it keeps rows apart by itself, so that a shard ends with a row and needs no file of offsets.
    columns: whether it has a place for more columns than `input_ids`. alone: whether a shard is complete without
    further files, so that `--output NAME.EXTENSION` can be a single one. split_directories: whether training rows are
    in `train/` if there is `validation/`. extension, second: the ends of the names of a shard and of its second file,
    if any, which a format without rows has for offsets; stem: how the names of shards in a directory start.
    """

    rows: ClassVar[bool] = True
    columns: ClassVar[bool] = True
    alone: ClassVar[bool] = False
    split_directories: ClassVar[bool] = False
    stem: ClassVar[str] = "shard-{index:05d}"
    extension: ClassVar[str]
    second: ClassVar[str | None] = None

    def names(self, stem: str, layout: Layout) -> tuple[str, str | None]:
        """Return the names of a shard and of its second file, if any, that start with this stem."""
        second = self.second if layout.offsets or self.rows else None
        return f"{stem}.{self.extension}", second and f"{stem}.{second}"

    def ends_with_row(self, layout: Layout) -> bool:
        """Return whether a shard ends with a row: the format, or the file of offsets, keeps rows apart."""
        return self.rows or layout.offsets

    def stored_dtype(self, dtype: str) -> str:
        """Return the dtype in the file of a column with this dtype."""
        return dtype

    def header(self, layout: Layout, tokens: int) -> bytes | None:
        """Return what a file has before its ids if these are end to end behind it; None for other formats."""
        return None

    def complete(self, file: IO[bytes], second: Path | None, layout: Layout, ends: "Iterable[array[int]]") -> int:
        """Make a shard of an open file of ids behind the space of their header; returns how many rows it has.

        It is for a format with a header. ends: where rows end, block by block.
        """
        raise NotImplementedError

    def memory_bytes(self, layout: Layout) -> int | None:
        """Return the bytes that writing a value takes in addition to its row; None if rows are not gathered."""
        return 0

    @abstractmethod
    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        """Write a shard and its second file; returns how many rows it has."""

    @abstractmethod
    def read(self, where: Location, second: Location | None, layout: Layout, facts: ShardFacts) -> Iterator[Block]:
        """Yield the first column of a shard and, with `second` or `rows`, where rows end, in blocks of any size.

        `ValueError` if that cannot be read; the caller checks the number of values.
        """

    def index(self, layout: Layout, splits: Mapping[str, Sequence[ShardFacts]]) -> dict[str, str]:
        """Return the files that the format adds to a directory, path -> text; splits: directory or "" -> its shards."""
        return {}


@dataclass
class RowGroup:
    """Whole rows: values of each column as bytes, and where each row ends among them."""

    columns: dict[str, bytearray]
    ends: list[int]


def row_groups(layout: Layout, rows: Iterable[Rows]) -> Iterator[RowGroup]:
    """Yield groups of whole rows, of about a million values; the last row may continue in the next shard."""
    sizes = {name: value_bytes(dtype) for name, dtype in layout.columns.items()}
    waiting = {name: bytearray() for name in sizes}  # values that belong to no group yet
    first = 0  # where they start in the shard
    ends: list[int] = []

    def group(count: int) -> RowGroup:
        nonlocal first
        row_ends, start = ends[:count], first
        first, taken = row_ends[-1], {}
        for name, size in sizes.items():  # the smaller part is copied: a group is as large as its longest row
            values, bytes_ = waiting[name], (first - start) * size
            if 2 * bytes_ > len(values):
                taken[name], waiting[name] = values, values[bytes_:]
                del values[bytes_:]
            else:
                taken[name] = values[:bytes_]
                del values[:bytes_]
        del ends[:count]
        return RowGroup(taken, [end - start for end in row_ends])

    for more in rows:
        for name, values in waiting.items():
            values += memoryview(more.columns[name]).cast("B")
        ends += more.ends
        del more
        # Where a group ends must not depend on the blocks.
        while (count := min(bisect_left(ends, first + _GROUP_VALUES) + 1, _GROUP_ROWS)) <= len(ends):
            yield group(count)
    after = first + len(waiting[IDS]) // sizes[IDS]
    if (ends[-1] if ends else first) < after:
        ends.append(after)  # a row that is not finished
    if ends:
        yield group(len(ends))


def row_bytes(layout: Layout) -> int:
    """Return the bytes of a value of each column."""
    return sum(map(value_bytes, layout.columns.values()))


def value_bytes(dtype: str) -> int:
    """Return the bytes of a value of a dtype."""
    return array(CODES[dtype]).itemsize


@cache
def shard_format(name: str) -> ShardFormat:
    """Return the format of a name; raises `InputError` for one that no installed package has."""
    registered = shard_formats()
    if name not in registered:
        known = ", ".join(registered)
        raise InputError(f"the shard format {name!r} is none of {known}: install the package with it")
    format_: ShardFormat = registered[name].load()
    return format_


def single_formats() -> list[str]:
    """Return the formats whose shards are complete alone, so that one can be a single file."""
    return [name for name in shard_formats() if shard_format(name).alone]
