"""Documents to rows, in the worker that writes a shard: as they are, or rows of a fixed number of tokens."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline import _core
from pipeline.shards.formats.shard_format import IDS, Block, Layout, Rows

POSITIONS, NUMBERS = "position_ids", "document_ids"
_WINDOW_TOKENS, _WINDOW_ROWS = 1 << 20, 64  # at least, packed together: what is left of a window is padding


@dataclass(frozen=True)
class Packing:
    """How documents become rows of that many tokens. pad: the id that fills rows up, if all have the same length."""

    name: str
    row_tokens: int
    pad: int
    padded: bool

    def layout(self, dtype: str, *, positions: bool) -> Layout:
        """Return what the rows have."""
        extra = {POSITIONS: "int32", NUMBERS: "int32"} if positions else {}
        return Layout({IDS: dtype, **extra}, self.row_tokens if self.padded else None, documents=False)


class Packed:
    """The rows of documents, and what they cost."""

    def __init__(self, packing: Packing, layout: Layout) -> None:
        self._packing, self._layout, self._columns = packing, layout, len(layout.columns) > 1
        self._packer = _core.Packer(
            layout.id_bytes,
            row=packing.row_tokens,
            pad=packing.pad,
            window=max(_WINDOW_TOKENS, _WINDOW_ROWS * packing.row_tokens),
            packing=packing.name,
            padded=packing.padded and packing.name != "concat",
        )
        self.tokens = 0

    @property
    def padded(self) -> int:
        """Tokens that fill rows up."""
        return self._packer.amounts()[0]

    @property
    def truncated(self) -> int:
        """Tokens of documents that were left out."""
        return self._packer.amounts()[1]

    def rows(self, blocks: Iterator[Block]) -> Iterator[Rows]:
        """Yield the rows of the documents in these blocks."""
        if self._packing.name == "concat" and not self._columns:
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
        columns = {IDS: ids, **({POSITIONS: positions, NUMBERS: numbers} if self._columns else {})}
        first = self.tokens
        self.tokens += len(ids)
        return Rows(columns, array("Q", (first + end for end in ends)))

    def _end_to_end(self, blocks: Iterator[Block]) -> Iterator[Rows]:
        row = self._packing.row_tokens
        for ids, _ in blocks:
            before = self.tokens
            self.tokens += len(ids)
            yield Rows({IDS: ids}, array("Q", range((before // row + 1) * row, self.tokens + 1, row)))
