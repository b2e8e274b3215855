"""Ids end to end: `.bin` is nothing else, `.npy` has NumPy's header before them, Megatron-LM's `.bin` has an `.idx`.

Rows of one length are the first dimension of two in `.npy`. The offsets of documents are another `.npy` file, of
uint64: where each document starts and the last one ends. In Megatron's `.idx` a sequence is a row; ids of four bytes
are signed there, which makes no difference below 2**31.
"""

import os
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, ClassVar

from bpe_pipeline.shards.formats import (
    BLOCK_IDS,
    ID_CODES,
    IDS,
    Block,
    Layout,
    Rows,
    ShardFacts,
    ShardFormat,
)
from bpe_pipeline.storage import Location, open_file
from bpe_pipeline.storage.npy import HEADER_BYTES, npy_header


class Bin(ShardFormat):
    """The format bin."""

    rows: ClassVar[bool] = False
    columns: ClassVar[bool] = False
    alone: ClassVar[bool] = True
    extension: ClassVar[str] = "bin"
    second: ClassVar[str | None] = "documents.npy"

    def memory_bytes(self, layout: Layout) -> int | None:
        """Return None: values are written as they come."""
        return None

    def header(self, layout: Layout, tokens: int) -> bytes:
        """Return what is before the ids."""
        return b""

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        """Write the files; ids are never Python numbers here."""
        with path.open("wb") as file:
            file.write(self.header(layout, 0))

            def ends() -> "Iterator[array[int]]":
                for more in rows:
                    file.write(more.columns[IDS])
                    yield more.ends

            return self.complete(file, second, layout, ends())

    def complete(self, file: IO[bytes], second: Path | None, layout: Layout, ends: "Iterable[array[int]]") -> int:
        """Write the header of an open file that has all ids when all ends were read, and the second file."""
        row_tokens = layout.row_tokens
        ended = last = 0
        with (second or Path(os.devnull)).open("wb") as positions:
            positions.write(bytes(HEADER_BYTES) + array("Q", [0]).tobytes())
            for more in ends:
                positions.write(more)
                ended += len(more)
                last = more[-1] if more else last
            values = self._values(file, layout)
            unfinished = last < values  # a document that continues in the next shard
            positions.write(array("Q", [values] * unfinished))
            positions.seek(0)
            positions.write(npy_header(8, ended + 1 + unfinished))
        file.seek(0)
        file.write(self.header(layout, values))
        return values // row_tokens if row_tokens else ended + unfinished

    def _values(self, file: IO[bytes], layout: Layout) -> int:
        return (file.seek(0, os.SEEK_END) - len(self.header(layout, 0))) // layout.id_bytes

    def read(self, where: Location, second: Location | None, layout: Layout, facts: ShardFacts) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        ends, done = array("Q") if second is None else self.ends(second, layout, facts), 0
        id_bytes, header = layout.id_bytes, self.header(layout, facts.tokens)
        with open_file(where) as file:
            if file.read_at(0, len(header)) != header:
                raise ValueError("its header is not as it was written")
            tokens = (file.seek(0, 2) - len(header)) // id_bytes
            for first in range(0, max(tokens, 1), BLOCK_IDS):
                data = file.read_at(len(header) + first * id_bytes, BLOCK_IDS * id_bytes)
                stop = bisect_right(ends, first + len(data) // id_bytes, done)
                yield memoryview(array(ID_CODES[id_bytes], data)), ends[done:stop]
                done = stop

    def ends(self, where: Location, layout: Layout, facts: ShardFacts) -> "array[int]":
        """Read where the documents of a shard end, without one that continues in the next shard."""
        with open_file(where) as file:
            positions = array("Q", file.read_at(HEADER_BYTES, file.seek(0, 2)))
            if file.read_at(0, HEADER_BYTES) != npy_header(8, len(positions)):
                raise ValueError("the header of its offsets is not as it was written")
        if len(positions) < facts.documents + 1:
            raise ValueError("there are fewer offsets than documents")
        ends = positions[1 : facts.documents + 1]
        if any(end < before for before, end in pairwise([0, *ends, facts.tokens])):
            raise ValueError("its offsets are not in order, or exceed its tokens")
        return ends


class Npy(Bin):
    """The format npy."""

    extension: ClassVar[str] = "npy"

    def header(self, layout: Layout, tokens: int) -> bytes:
        """Return NumPy's header."""
        return npy_header(layout.id_bytes, tokens, layout.row_tokens)


_HEADER = struct.Struct("<9sQBQQ")  # mark, version, dtype, sequences, document ends
_MARK = b"MMIDIDX\x00\x00"
_DTYPES = {2: 8, 4: 4}  # bytes of an id -> Megatron's number of the dtype


class IndexedDataset(Bin):
    """The format megatron."""

    rows: ClassVar[bool] = True
    alone: ClassVar[bool] = False
    second: ClassVar[str | None] = "idx"

    def complete(self, file: IO[bytes], second: Path | None, layout: Layout, ends: "Iterable[array[int]]") -> int:
        """Write the index."""
        assert second is not None
        positions = array("Q", [0])
        for more in ends:
            positions.extend(more)
        values = self._values(file, layout)
        if values > positions[-1]:
            positions.append(values)  # a document that continues in the next shard
        count = len(positions) - 1
        with second.open("wb") as index:
            index.write(_HEADER.pack(_MARK, 1, _DTYPES[layout.id_bytes], count, count + 1))
            index.write(array("i", (end - start for start, end in pairwise(positions))))
            index.write(array("q", (start * layout.id_bytes for start in positions[:-1])))
            index.write(array("q", range(count + 1)))
        return count

    def ends(self, where: Location, layout: Layout, facts: ShardFacts) -> "array[int]":
        """Read where rows end from the index."""
        with open_file(where) as file:
            header = file.read_at(0, _HEADER.size)
            if len(header) < _HEADER.size or header[:9] != _MARK:
                raise ValueError("the header of its index is not as it was written")
            lengths = array("i", file.read_at(_HEADER.size, 4 * _HEADER.unpack(header)[3]))
        return array("Q", accumulate(lengths[: layout.ended(facts)]))


NPY, BIN, MEGATRON = Npy(), Bin(), IndexedDataset()
