"""Megatron-LM's indexed datasets: the ids end to end in `.bin`, and `.idx` with where sequences and documents are.

A sequence is a row. Ids of four bytes are signed there, which makes no difference below 2**31.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from pipeline.shards.formats.ids_end_to_end import IdsEndToEnd
from pipeline.shards.formats.shard_format import IDS, Block, Layout, Rows, ShardFacts, ShardFormat
from pipeline.storage import Location, open_file

_HEADER = struct.Struct("<9sQBQQ")  # mark, version, dtype, sequences, document ends
_MARK = b"MMIDIDX\x00\x00"
_DTYPES = {2: 8, 4: 4}  # bytes of an id -> Megatron's number of the dtype


class IndexedDataset(ShardFormat):
    """The format megatron."""

    columns: ClassVar[bool] = False

    def names(self, index: int, shards: int, *, offsets: bool) -> tuple[str, str | None]:  # noqa: ARG002
        """Return the names of the ids and of their index."""
        return f"shard-{index:05d}.bin", f"shard-{index:05d}.idx"

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        """Write both files."""
        assert second is not None
        id_bytes, values = layout.id_bytes, 0
        ends = array("Q")
        with path.open("wb") as file:
            for more in rows:
                ids = memoryview(more.columns[IDS])
                file.write(ids)
                ends.extend(more.ends)
                values += ids.nbytes // id_bytes
        if values > (ends[-1] if ends else 0):
            ends.append(values)  # a document that continues in the next shard
        starts = array("Q", [0, *ends[:-1]] if ends else [])
        lengths = array("i", (end - start for start, end in zip(starts, ends, strict=True)))
        with second.open("wb") as file:
            file.write(_HEADER.pack(_MARK, 1, _DTYPES[id_bytes], len(lengths), len(lengths) + 1))
            file.write(lengths)
            file.write(array("q", (start * id_bytes for start in starts)))
            file.write(array("q", range(len(lengths) + 1)))
        return len(lengths)

    def read(self, where: Location, second: Location | None, layout: Layout, facts: ShardFacts) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        assert second is not None
        with open_file(second) as file:
            header = file.read_at(0, _HEADER.size)
            if len(header) < _HEADER.size or header[:9] != _MARK:
                raise ValueError("the header of its index is not as it was written")
            sequences = _HEADER.unpack(header)[3]
            lengths = array("i", file.read_at(_HEADER.size, 4 * sequences))
        ends, at = array("Q"), 0
        for length in lengths[: layout.ended(facts)]:
            at += length
            ends.append(at)
        low = 0
        for ids, first in IdsEndToEnd("bin").values(where, layout, facts):
            high = next((at for at in range(low, len(ends)) if ends[at] > first + len(ids)), len(ends))
            yield ids, ends[low:high]
            low = high
