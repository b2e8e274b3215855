"""How conversations become rows of training, one row each or packed, and the columns of these rows.

A conversation is stored as uint32: its ids, with the highest bit where one is trained on.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bpe_pipeline.shards.bucket import BucketFiles, LongRow, RowsAndFacts
from bpe_pipeline.shards.finish import POSITIONS
from bpe_pipeline.shards.formats import IDS, Layout, Rows, ShardFormat

ID_BYTES = 4
LABELS, MASK, NEAT = "labels", "attention_mask", "neat"
_MAKING_BYTES = 4 * ID_BYTES  # of each token of a row: its value, id and label, and what they are made with
_IGNORED, _ID_BITS = pa.scalar(-100, pa.int32()), pa.scalar((1 << 31) - 1, pa.int32())
_TOKENS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class ConversationRows:
    """Each conversation is a row, or rows of as many tokens as the layout says are packed with those of a shard.

    pack: none, greedy or neat. pad: the id that fills packed rows.
    """

    layout: Layout
    pack: str
    pad: int
    whole: bool = True  # a shard ends with a conversation
    cut: int | None = None
    unit: int = 1
    least: int = 1
    as_stored: bool = False  # their values are ids and labels

    @classmethod
    def of(cls, pack: str, row_tokens: int, pad: int) -> "ConversationRows":
        """Return the rows of this packing, if it is one."""
        columns = {IDS: "int32", LABELS: "int32", MASK: "int32" if pack == NEAT else "int8"}
        if pack not in ("greedy", NEAT):
            return cls(Layout(columns), "none", pad)
        return cls(Layout({**columns, POSITIONS: "int32"}, row_tokens, documents=False), pack, pad)

    def longest(self, _tokens: int, documents: int, document_tokens: int) -> LongRow:
        """Return the longest row. What is known of a conversation to pack takes as much memory as a token."""
        row = self.layout.row_tokens
        return LongRow(document_tokens) if row is None else LongRow(row, max(row, documents), _MAKING_BYTES)

    def made(self, _: ShardFormat, bucket: BucketFiles, tokens: int, documents: int) -> RowsAndFacts:
        """Return the rows of a bucket, and how many tokens are trained on, and fill rows, when they are written."""
        trained = total = 0

        def rows() -> Iterator[Rows]:
            nonlocal trained, total
            made = self._packed(bucket, documents) if self.layout.row_tokens else _each(bucket, tokens, documents)
            for values, columns, ends in made:
                ids = pa.Array.from_buffers(pa.int32(), len(values) // ID_BYTES, [None, pa.py_buffer(values)])
                is_trained = pc.less(ids, 0)
                ids = pc.bit_wise_and(ids, _ID_BITS)
                labels = pc.if_else(is_trained, ids, _IGNORED)
                trained += pc.sum(is_trained).as_py() or 0
                total += len(ids)
                yield Rows({IDS: _bytes_of(ids), LABELS: _bytes_of(labels), **columns}, ends)

        def facts(count: int) -> dict[str, Any]:
            packed = {"tokens": total, "rows": count, "padded": total - tokens} if self.layout.row_tokens else {}
            return {"trained_on": trained, **packed}

        return rows(), facts

    def _packed(self, bucket: BucketFiles, documents: int) -> "Iterator[_Made]":
        """Yield the packed rows of a bucket, some at a time."""
        row_tokens, first = self.layout.row_tokens or 0, 0
        ends = array("Q", chain([0], *bucket.number_blocks(documents)))
        rows, stops = pack_rows([stop - start for start, stop in pairwise(ends)], row_tokens - 1)
        with bucket.ids.open("rb", buffering=0) as file:

            def stored(row: int) -> bytes:
                file.seek(ends[row] * ID_BYTES)
                return file.read((ends[row + 1] - ends[row]) * ID_BYTES)

            for at in range(0, len(stops), step := max(_TOKENS_AT_ONCE // row_tokens, 1)):
                borders = [stops[at - 1] if at else 0, *stops[at : at + step]]
                bags = [[stored(row) for row in rows[start:stop]] for start, stop in pairwise(borders)]
                row_ends = array("Q", range(first + row_tokens, first + len(bags) * row_tokens + 1, row_tokens))
                yield *self._columns(bags), row_ends
                first = row_ends[-1]

    def _columns(self, bags: Iterable[list[bytes]]) -> tuple[bytes, dict[str, bytes]]:
        """Return the values of rows with padding, their masks and positions."""
        row_tokens, values, masks, positions = self.layout.row_tokens or 0, [], [], []
        pad = self.pad.to_bytes(ID_BYTES, "little")
        for bag in bags:
            lengths = [len(conversation) // ID_BYTES for conversation in bag]
            filled = row_tokens - sum(lengths)
            values += [*bag, pad * filled]
            positions += [*map(_positions, lengths), bytes(ID_BYTES * filled)]
            if self.pack == NEAT:
                masks += [number.to_bytes(ID_BYTES, "little") * length for number, length in enumerate(lengths, 1)]
                masks.append(bytes(ID_BYTES * filled))
            else:
                masks.append(b"\1" * row_tokens)
        return b"".join(values), {MASK: b"".join(masks), POSITIONS: b"".join(positions)}


_Made = tuple[bytes | memoryview, dict[str, bytes], "array[int]"]
"""Values of rows, their other columns, and where rows end in the shard."""


def _each(bucket: BucketFiles, tokens: int, documents: int) -> Iterator[_Made]:
    """Yield the conversations of a bucket as rows."""
    for ids, ends in bucket.blocks(0, tokens, documents):
        yield ids.cast("B"), {MASK: b"\1" * len(ids)}, ends


def pack_rows(lengths: Sequence[int], capacity: int) -> "tuple[array[int], array[int]]":
    """Return the rows of all bags, and where each bag ends among them: LLaMA-Factory's greedy knapsack.

    A bag takes the longest row that fits again and again, of equally long ones the last, until none fits. Rows that
    are longer than a bag are left out.

    >>> rows, ends = pack_rows([7, 3, 4, 2, 5], 9)
    >>> list(rows), list(ends)
    ([0, 3, 4, 2, 1], [2, 4, 5])
    """
    waiting: dict[int, array[int]] = defaultdict(lambda: array("Q"))  # the rows of each length
    for row, length in enumerate(lengths):
        if 0 < length <= capacity:
            waiting[length].append(row)
    left, rows, ends = sorted(waiting), array("Q"), array("Q")
    while left:
        fits = capacity
        while at := bisect_right(left, fits):
            length = left[at - 1]
            rows.append(waiting[length].pop())
            fits -= length
            if not waiting[length]:
                del left[at - 1]
        ends.append(len(rows))
    return rows, ends


def _bytes_of(column: Any) -> bytes:
    """Return the int32 of a column, which has no nulls."""
    return bytes(memoryview(column.buffers()[1])[ID_BYTES * column.offset :][: ID_BYTES * len(column)])


@lru_cache(256)
def _positions(length: int) -> bytes:
    return array("i", range(length)).tobytes()
