"""Megatron-LM's indexed datasets: the ids end to end in `.bin`, and `.idx` with where sequences and documents are.

A sequence is a row. Ids of four bytes are signed there, which makes no difference below 2**31.
"""

import struct
from array import array
from collections.abc import Iterable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import ClassVar

from pipeline.shards.formats.ids_end_to_end import Bin
from pipeline.shards.formats.shard_format import IDS, Layout, Rows, ShardFacts
from pipeline.storage import Location, open_file

_HEADER = struct.Struct("<9sQBQQ")  # mark, version, dtype, sequences, document ends
_MARK = b"MMIDIDX\x00\x00"
_DTYPES = {2: 8, 4: 4}  # bytes of an id -> Megatron's number of the dtype


class IndexedDataset(Bin):
    """The format megatron."""

    rows: ClassVar[bool] = True
    alone: ClassVar[bool] = False
    second: ClassVar[str | None] = "shard-{index:05d}.idx"

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        """Write both files."""
        assert second is not None
        ends = array("Q", [0])
        with path.open("wb") as file:
            for more in rows:
                file.write(more.columns[IDS])
                ends.extend(more.ends)
            values = file.tell() // layout.id_bytes
        if values > ends[-1]:
            ends.append(values)  # a document that continues in the next shard
        count = len(ends) - 1
        with second.open("wb") as file:
            file.write(_HEADER.pack(_MARK, 1, _DTYPES[layout.id_bytes], count, count + 1))
            file.write(array("i", (end - start for start, end in pairwise(ends))))
            file.write(array("q", (start * layout.id_bytes for start in ends[:-1])))
            file.write(array("q", range(count + 1)))
        return count

    def ends(self, where: Location, layout: Layout, facts: ShardFacts) -> "array[int]":
        """Read where rows end from the index."""
        with open_file(where) as file:
            header = file.read_at(0, _HEADER.size)
            if len(header) < _HEADER.size or header[:9] != _MARK:
                raise ValueError("the header of its index is not as it was written")
            lengths = array("i", file.read_at(_HEADER.size, 4 * _HEADER.unpack(header)[3]))
        return array("Q", accumulate(lengths[: layout.ended(facts)]))
