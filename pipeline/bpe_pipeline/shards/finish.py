"""Finishing shards: a closed bucket becomes a shard, and shards are checked. What a worker process does.

Its documents become rows: each is a row, or rows of a fixed number of tokens are packed with them.

A finished shard, and its second file, are hidden files until all are finished, named by split and index, since a
shard's own name may say how many there are.
"""

import logging
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base import system
from bpe_pipeline.base.errors import InputError, RunDirectoryError, os_error_as
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.shards.bucket import MOST_ROW, REMEDY, BucketFiles, ClosedShard, LongRow, RowsAndFacts, ShardRows
from bpe_pipeline.shards.encode_worker import unload
from bpe_pipeline.shards.encoded_corpus import checksum
from bpe_pipeline.shards.formats import ID_CODES, IDS, Block, Layout, Rows, ShardFacts, ShardFormat
from bpe_pipeline.storage import Location, unreadable

_log = logging.getLogger(__name__)
POSITIONS, NUMBERS = "position_ids", "document_ids"
_WINDOW_TOKENS, _WINDOW_ROWS = 1 << 20, 64  # at least, packed together: what is left of a window is padding


@dataclass(frozen=True)
class DocumentRows:
    """Each document is a row."""

    layout: Layout
    whole: bool
    cut: int | None = 1
    unit: int = 1
    least: int = 1
    as_stored: bool = True

    def longest(self, tokens: int, _documents: int, document_tokens: int) -> LongRow:
        """Return the longest row of shards with at most that many tokens; document_tokens: of the longest document."""
        return LongRow(min(document_tokens, tokens))

    def made(self, format_: ShardFormat, bucket: BucketFiles, tokens: int, documents: int) -> RowsAndFacts:
        """Return the rows of a bucket with that many tokens and documents, and what is known when they are written."""
        rows = (Rows({IDS: ids}, ends) for ids, ends in bucket.blocks(0, tokens, documents))
        return rows, lambda count: {"rows": count if format_.rows and count != documents else None}


@dataclass(frozen=True)
class PackedRows:
    """Documents are packed into rows of that many tokens. packing: concat, best-fit or none; pad: the id that fills."""

    layout: Layout
    packing: str
    row_tokens: int
    pad: int

    @property
    def padded(self) -> bool:
        """Return whether rows are filled up to the same length."""
        return self.layout.row_tokens is not None and self.whole

    @property
    def whole(self) -> bool:
        """Return whether a shard ends with a document."""
        return self.packing != "concat"

    @property
    def cut(self) -> int | None:
        """The multiple of tokens at which a document longer than a shard is cut; None if it is not."""
        return None if self.packing == "none" else self.row_tokens

    @property
    def window(self) -> int:
        """How many tokens are packed together; rows depend on it only if the best fit is chosen."""
        return max(_WINDOW_TOKENS, _WINDOW_ROWS * self.row_tokens) if self.packing == "best-fit" else _WINDOW_TOKENS

    @property
    def unit(self) -> int:
        """The tokens that fill a row, where a shard has no others."""
        return 1 if self.whole else self.row_tokens

    @property
    def least(self) -> int:
        """The tokens of a row: a shard is never smaller."""
        return self.row_tokens

    @property
    def as_stored(self) -> bool:
        """Whether the tokens of rows are those of the bucket, in its order."""
        return not self.whole and len(self.layout.columns) == 1

    def longest(self, tokens: int, documents: int, _document_tokens: int) -> LongRow:
        """Return the longest row of shards with at most that many tokens, of that many documents."""
        row = self.row_tokens
        longest = row if self.padded else min(row, tokens)
        if self.as_stored:
            return LongRow(longest)
        together = min(tokens, self.window + row)
        parts = documents + together // row
        if self.packing == "best-fit":  # at most one row is not even half full
            together = min(2 * together + row, parts * row)
        elif self.packing == "none" and self.padded:
            together = min(parts, -(-self.window // row)) * row
        return LongRow(longest, together, self.layout.id_bytes)

    def made(self, _: ShardFormat, bucket: BucketFiles, tokens: int, documents: int) -> RowsAndFacts:
        """Return the rows of a bucket with that many tokens and documents, and what is known when they are written."""
        packer = Packer(self)
        rows = packer.rows(bucket.blocks(0, tokens, documents))
        return rows, lambda count: {"tokens": packer.tokens, "rows": count, "dropped": 0, **packer.cost()}


def layout_of(options: Mapping[str, Any], format_: ShardFormat) -> Layout:
    """Return what the rows of an encoding with these options have in this format."""
    row_tokens, packing, columns = options["sequence_length"], options["pack"], {IDS: options["dtype"]}
    if row_tokens is None:
        return Layout(columns, offsets=options["documents"] == "offsets")
    if format_.columns and (packing == "best-fit" or options["position_ids"]):
        columns |= {POSITIONS: "int32", NUMBERS: "int32"}
    padded = packing != "none" or not format_.rows
    return Layout(columns, row_tokens if padded else None, documents=False)


class Packer:
    """Packs documents into rows, and knows what that costs."""

    def __init__(self, packed: PackedRows) -> None:
        self._packed, self._columns = packed, len(packed.layout.columns) > 1
        self._packer = _core.Packer(
            packed.layout.id_bytes,
            row=packed.row_tokens,
            pad=packed.pad,
            window=packed.window,
            packing=packed.packing,
            padded=packed.padded,
        )
        self.tokens = 0

    def cost(self) -> dict[str, int]:
        """Return the tokens that fill rows up, and those of documents that were left out."""
        padded, truncated, _ = self._packer.amounts()
        return {"padded": padded, "truncated": truncated}

    def rows(self, blocks: Iterator[Block]) -> Iterator[Rows]:
        """Yield the rows of the documents in these blocks."""
        if self._packed.as_stored:
            yield from self._end_to_end(blocks)
            return
        first = 0
        for ids, ends in blocks:
            self._packer.add(ids, ends, first)
            first += len(ids)
            if self._packer.ready():
                yield self._taken()
        self._packer.end()
        if self._packer.ready():
            yield self._taken()

    def _taken(self) -> Rows:
        ids, ends, positions, numbers = self._packer.take(self._columns)
        ids = ids.cast(ID_CODES[self._packed.layout.id_bytes])
        columns = {IDS: ids, **({POSITIONS: positions, NUMBERS: numbers} if self._columns else {})}
        first, self.tokens = self.tokens, self.tokens + len(ids)
        return Rows(columns, array("Q", (first + end for end in ends)))

    def _end_to_end(self, blocks: Iterator[Block]) -> Iterator[Rows]:
        row = self._packed.row_tokens
        for ids, _ in blocks:
            before = self.tokens
            self.tokens += len(ids)
            yield Rows({IDS: ids}, array("Q", range((before // row + 1) * row, self.tokens + 1, row)))


@dataclass(frozen=True)
class ShardPlace:
    """The shards of an encoding. most: ids of one; directory: where they are made; key: of what they depend on."""

    format: ShardFormat
    rows: ShardRows
    most: int
    splits: Sequence[str]
    directory: Path
    key: str

    @property
    def layout(self) -> Layout:
        """What the rows have."""
        return self.rows.layout

    @property
    def in_place(self) -> bool:
        """Whether ids are the shard, once it has its header; otherwise the shard is written from them."""
        has_header = self.format.header(self.layout, 0) is not None
        return has_header and self.rows.as_stored and (self.layout.documents or not self.format.rows)

    def row_of(self, document: int, ids: int) -> LongRow | None:
        """Return the row of a document, if the format gathers rows; `InputError` if it is too long for any."""
        if not self.layout.documents or self.format.memory_bytes(self.layout) is None:
            return None
        tokens = ids if self.rows.cut is None else min(ids, self.most)
        if tokens > MOST_ROW:
            raise InputError(
                f"document {document + 1:,} of the corpus has more than {MOST_ROW:,} ids, the most of a row: give "
                f"--sequence-length, --shard-size {MOST_ROW}, or --shard-format npy"
            )
        return self.rows.longest(tokens, 1, tokens)

    def bucket(self, split: str, index: int) -> BucketFiles:
        """Return the files of a shard that is not finished."""
        header = self.format.header(self.layout, self.most) if self.in_place else b""
        with_numbers = not self.in_place or self.format.ends_with_row(self.layout) or not self.layout.documents
        return self.begun(f"{split}-{index:05d}", header or b"", with_numbers=with_numbers)

    def begun(self, name: str, header: bytes = b"", *, with_numbers: bool = True) -> BucketFiles:
        """Return the files of a bucket, whose names have the key of the encoding: those of another one stay apart."""
        return BucketFiles(self.directory, f"{name}.{self.key}", self.layout.id_bytes, header, with_numbers)

    def finished(self, split: str, index: int) -> tuple[Path, Path | None]:
        """Return where a finished shard, and its second file, are until all are finished."""
        bucket, (_, second) = self.bucket(split, index), self.format.names("", self.layout)
        whole = bucket.ids if self.in_place else bucket.ids.with_suffix(".shard")
        return whole, None if second is None else bucket.ids.with_suffix(".second")

    def seal(self, split: str, closed: ClosedShard) -> ShardFacts | None:
        """Finish a closed shard and return its facts, if its ids are the shard; otherwise cut its files to size.

        Again it makes the same.
        """
        bucket = self.bucket(split, closed.index)
        with os_error_as(RunDirectoryError, f"{bucket.ids} cannot be written", REMEDY):
            if not self.in_place:
                bucket.cut(closed.ids, closed.documents)
                return None
            whole, second = self.finished(split, closed.index)
            with whole.open("r+b") as file:
                file.truncate(len(bucket.header) + closed.ids * bucket.id_bytes)
                count = self.format.complete(file, second, self.layout, bucket.number_blocks(closed.documents))
            same_header = self.format.header(self.layout, closed.ids) == bucket.header
            _, facts_of = self.rows.made(self.format, bucket, closed.ids, closed.documents)
            facts = {**facts_of(count), "tokens": closed.ids, "documents": closed.documents}
            return self._facts(split, closed.index, facts, closed.crc32 if same_header else None)

    def finish(self, split: str, index: int) -> ShardFacts:
        """Make a shard of its bucket, whose size says what it has; returns its facts. Again it makes the same."""
        bucket = self.bucket(split, index)
        whole, second = self.finished(split, index)
        with os_error_as(RunDirectoryError, f"{whole} cannot be written", REMEDY):
            ids, documents = bucket.size()
            rows, facts_of = self.rows.made(self.format, bucket, ids, documents)
            count = self.format.write(whole, second, self.layout, rows)
            facts = self._facts(split, index, {"tokens": ids, "documents": documents, **facts_of(count)})
            system.flush(self.directory)  # its name is on disk before the bucket is gone
        return facts

    def _facts(self, split: str, index: int, facts: dict[str, Any], crc32: int | None = None) -> ShardFacts:
        """Return the facts of a shard, without its name, when it is on disk. crc32: of it, if it is known."""
        whole, second = self.finished(split, index)
        for path in filter(None, (whole, second)):
            system.flush(path)
        size, digits = checksum(whole) if crc32 is None else (whole.stat().st_size, f"{crc32:08x}")
        second_size, second_digits = checksum(second) if second else (None, None)
        facts |= {"offsets_bytes": second_size, "offsets_crc32": second_digits}
        return ShardFacts(name="", bytes=size, crc32=digits, split=None if split == "train" else split, **facts)


@dataclass(frozen=True)
class FinishTask:
    """A closed shard for a worker."""

    place: ShardPlace
    split: str
    index: int

    def __str__(self) -> str:
        return f"shard {self.place.finished(self.split, self.index)[0]}"

    __repr__ = __str__


def finish_shard(task: FinishTask) -> ShardFacts:
    """Finish a shard."""
    unload()
    facts = task.place.finish(task.split, task.index)
    report_progress(facts.tokens)
    _log.info("%s: %d ids, %d documents", task, facts.tokens, facts.documents)
    return facts


@dataclass(frozen=True)
class CheckTask:
    """A file of a finished directory to be read by a worker: the bytes and the CRC-32 that it had."""

    path: Location
    bytes: int
    crc32: str

    def __str__(self) -> str:
        return f"checking {self.path}"


def is_intact(task: CheckTask) -> bool:
    """Return whether a file is what was written."""
    try:
        same_size = task.path.stat().st_size == task.bytes
        return same_size and checksum(task.path, report_progress) == (task.bytes, task.crc32)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(task.path, error) from None
