"""How documents become the rows of shards: each is a row, or rows of a fixed number of tokens are packed with them."""

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bpe_pipeline import _core
from bpe_pipeline.shards.bucket import BucketFiles
from bpe_pipeline.shards.formats.shard_format import (
    ID_CODES,
    IDS,
    Block,
    Layout,
    Rows,
    ShardFormat,
    row_bytes,
)

POSITIONS, NUMBERS = "position_ids", "document_ids"
_WINDOW_TOKENS, _WINDOW_ROWS = 1 << 20, 64  # at least, packed together: what is left of a window is padding
_FREE_TOKENS = 1 << 20  # of a row, for which the memory of any worker is enough


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
        read, packed = (max(tokens - _FREE_TOKENS, 0) for tokens in (self.tokens, self.together))
        row, packing = row_bytes(layout), packed * self.token_bytes
        if by_format is None:
            return packing + packed * row
        return packing + max(read, packed) * row + max(read * by_format, packed * row)


RowsAndFacts = tuple[Iterator[Rows], Callable[[int], dict[str, Any]]]
"""Rows of a shard, and what returns the facts of it that differ from its bucket's, once that many rows are written."""


class ShardRows(Protocol):
    """How the documents in buckets become rows. cut: the multiple of tokens at which a document longer than a shard is
    cut; None if it is not. whole: whether a shard ends with a document, unless that is cut.
    """

    @property
    def layout(self) -> Layout:
        """What the rows have."""

    @property
    def whole(self) -> bool: ...  # noqa: D102 - see above

    @property
    def cut(self) -> int | None: ...  # noqa: D102 - see above

    def shard_tokens(self, most: int) -> int:
        """Return the most tokens of a shard, if that many are asked for."""

    def left_out(self, tokens: int) -> int:
        """Return how many of that many tokens fill no row."""

    def longest(self, tokens: int, documents: int, document_tokens: int, /) -> LongRow:
        """Return the longest row of shards with at most that many tokens; document_tokens: of the longest document."""

    def made(self, format_: ShardFormat, bucket: BucketFiles, tokens: int, documents: int, /) -> RowsAndFacts:
        """Return the rows of a bucket with that many tokens and documents, and what is known when they are written."""


@dataclass(frozen=True)
class DocumentRows:
    """Each document is a row."""

    layout: Layout
    whole: bool
    cut: int | None = 1

    def shard_tokens(self, most: int) -> int:
        """Return the most tokens of a shard, if that many are asked for."""
        return most

    def left_out(self, _tokens: int) -> int:
        """Return 0: every token is in a row."""
        return 0

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
        """Return whether all rows have the same length."""
        return self.layout.row_tokens is not None

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

    def shard_tokens(self, most: int) -> int:
        """Return the most tokens of a shard, if that many are asked for: a shard is never smaller than a row."""
        rows = max(most // self.row_tokens, 1)
        return rows * self.row_tokens if self.packing == "concat" else max(most, self.row_tokens)

    def left_out(self, tokens: int) -> int:
        """Return how many of that many tokens fill no row."""
        return tokens % self.row_tokens if self.packing == "concat" else 0

    def longest(self, tokens: int, documents: int, _document_tokens: int) -> LongRow:
        """Return the longest row of shards with at most that many tokens, of that many documents."""
        row = self.row_tokens
        longest = row if self.padded and self.packing != "concat" else min(row, tokens)
        if self.packing == "concat" and len(self.layout.columns) == 1:
            return LongRow(longest)
        together = min(tokens, self.window + row)
        pre_tokens = documents + together // row
        if self.packing == "best-fit":  # at most one row is not even half full
            together = min(2 * together + row, pre_tokens * row)
        elif self.packing == "none" and self.padded:
            together = min(pre_tokens, -(-self.window // row)) * row
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
            padded=packed.padded and packed.packing != "concat",
        )
        self.tokens = 0

    def cost(self) -> dict[str, int]:
        """Return the tokens that fill rows up, and those of documents that were left out."""
        padded, truncated, _ = self._packer.amounts()
        return {"padded": padded, "truncated": truncated}

    def rows(self, blocks: Iterator[Block]) -> Iterator[Rows]:
        """Yield the rows of the documents in these blocks."""
        if self._packed.packing == "concat" and not self._columns:
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
