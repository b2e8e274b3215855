"""Ids end to end: `.bin` is nothing else, `.npy` has NumPy's header before them.

Rows of one length are the first dimension of two in `.npy`.

The offsets of documents are another `.npy` file, of uint64: where each document starts and the last one ends.
"""

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from pipeline.shards.formats.shard_format import BLOCK_IDS, ID_CODES, IDS, Block, Layout, Rows, ShardFacts, ShardFormat
from pipeline.storage import Location, open_file

_HEADER_BYTES = 128


@dataclass(frozen=True)
class IdsEndToEnd(ShardFormat):
    """The formats npy and bin."""

    rows: ClassVar[bool] = False
    columns: ClassVar[bool] = False
    alone: ClassVar[bool] = True
    extension: str

    def names(self, index: int, shards: int, *, offsets: bool) -> tuple[str, str | None]:  # noqa: ARG002
        """Return the names of a shard and of its offsets."""
        name = f"shard-{index:05d}"
        return f"{name}.{self.extension}", f"{name}.documents.npy" if offsets else None

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        """Write the files; ids are never Python numbers here."""
        npy, row_tokens = self.extension == "npy", layout.row_tokens
        ended = last = values = 0
        with path.open("wb") as file, (second or Path(os.devnull)).open("wb") as positions:
            file.write(bytes(_HEADER_BYTES if npy else 0))
            positions.write(bytes(_HEADER_BYTES) + array("Q", [0]).tobytes())
            for more in rows:
                ids = memoryview(more.columns[IDS])
                file.write(ids)
                positions.write(more.ends)
                values += ids.nbytes // layout.id_bytes
                ended += len(more.ends)
                last = more.ends[-1] if more.ends else last
            unfinished = last < values  # a document that continues in the next shard
            positions.write(array("Q", [values] * unfinished))
            positions.seek(0)
            positions.write(_npy_header(8, ended + 1 + unfinished))
            if npy:
                file.seek(0)
                file.write(_npy_header(layout.id_bytes, values, row_tokens))
        return values // row_tokens if row_tokens else ended + unfinished

    def read(self, where: Location, second: Location | None, layout: Layout, facts: ShardFacts) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        ends, done = array("Q") if second is None else _read_ends(second, facts.tokens, facts.documents), 0
        for ids, first in self.values(where, layout, facts):
            stop = bisect_right(ends, first + len(ids), done)
            yield ids, ends[done:stop]
            done = stop

    def values(self, where: Location, layout: Layout, facts: ShardFacts) -> Iterator[tuple[memoryview, int]]:
        """Yield the ids of a file, and how many came before. Raises `ValueError` for damage."""
        tokens, id_bytes = facts.tokens, layout.id_bytes
        header = _npy_header(id_bytes, tokens, layout.row_tokens) if self.extension == "npy" else b""
        with open_file(where) as file:
            if file.read_at(0, len(header)) != header:
                raise ValueError("its header is not as it was written")
            size = file.seek(0, 2) - len(header)
            if size != tokens * id_bytes:
                raise ValueError(f"it holds {size // id_bytes:,} tokens, not {tokens:,}")
            for first in range(0, max(tokens, 1), BLOCK_IDS):
                data = file.read_at(len(header) + first * id_bytes, BLOCK_IDS * id_bytes)
                yield memoryview(array(ID_CODES[id_bytes], data)), first


def _read_ends(where: Location, tokens: int, documents: int) -> "array[int]":
    """Read where the documents of a shard end, without one that continues in the next shard."""
    with open_file(where) as file:
        positions = array("Q", file.read_at(_HEADER_BYTES, file.seek(0, 2)))
        if file.read_at(0, _HEADER_BYTES) != _npy_header(8, len(positions)):
            raise ValueError("the header of its offsets is not as it was written")
    if len(positions) < documents + 1:
        raise ValueError("there are fewer offsets than documents")
    ends = positions[1 : documents + 1]
    if any(end < before for before, end in pairwise([0, *ends, tokens])):
        raise ValueError("its offsets are not in order, or exceed its tokens")
    return ends


def _npy_header(item_bytes: int, count: int, row_values: int | None = None) -> bytes:
    """Return the header of a .npy file of unsigned numbers: version 1.0, one dimension or rows, always of one size."""
    shape = f"({count},)" if row_values is None else f"({count // row_values}, {row_values})"
    text = f"{{'descr': '<u{item_bytes}', 'fortran_order': False, 'shape': {shape}, }}"
    rest = _HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + rest.to_bytes(2, "little") + f"{text:<{rest - 1}}\n".encode("latin-1")
