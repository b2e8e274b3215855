"""Parquet with a row a document: the column `input_ids`, lists of uint16 or uint32. Arrow is imported for it alone."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from pipeline.shards.formats.shard_format import BLOCK_IDS, ID_CODES, Block
from pipeline.storage import Location, arrow_source

_ROW_GROUP_IDS, _ROW_GROUP_ROWS = 1 << 20, 1 << 16
_ROWS_AT_ONCE = 1024
COLUMN = "input_ids"


class DocumentRows:
    """The format parquet. The last row may be a document that continues in the next shard."""

    rows: ClassVar[bool] = True

    def write(self, path: Path, offsets: Path | None, id_bytes: int, tokens: int, blocks: Iterable[Block]) -> int:
        """Write the file."""
        assert offsets is None, "rows separate documents"
        import pyarrow as pa
        import pyarrow.parquet as pq

        kind = pa.uint16() if id_bytes == 2 else pa.uint32()
        schema = pa.schema([pa.field(COLUMN, pa.list_(pa.field("element", kind, nullable=False)), nullable=False)])
        options: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
        documents = 0
        with pq.ParquetWriter(path, schema, use_dictionary=False, write_statistics=False, **options) as writer:
            for ids, ends, ended in _row_groups(blocks, id_bytes, tokens):
                values = pa.Array.from_buffers(kind, len(ids) // id_bytes, [None, pa.py_buffer(ids)])
                buffers = [None, pa.py_buffer(array("i", [0, *ends]))]
                rows = pa.ListArray.from_buffers(schema.field(0).type, len(ends), buffers, children=[values])
                writer.write_table(pa.Table.from_arrays([rows], schema=schema))
                documents += ended
        return documents

    def read(
        self, where: Location, offsets: Location | None, id_bytes: int, tokens: int, documents: int
    ) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        assert offsets is None, "rows separate documents"
        import pyarrow as pa
        import pyarrow.parquet as pq

        first = ended = 0
        try:
            with pq.ParquetFile(arrow_source(where)) as file:
                for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
                    column = batch.column(0)
                    start, *stops = column.offsets.to_pylist()
                    ends = array("Q", (first + stop - start for stop in stops[: max(documents - ended, 0)]))
                    ended += len(stops)
                    values = column.flatten().cast(pa.uint16() if id_bytes == 2 else pa.uint32())
                    done = 0
                    for at in range(0, max(len(values), 1), BLOCK_IDS):
                        block = values.slice(at, BLOCK_IDS)
                        data = memoryview(block.buffers()[1] or b"")
                        ids = data[block.offset * id_bytes : (block.offset + len(block)) * id_bytes]
                        upto = bisect_right(ends, first + at + len(block), done)
                        yield ids.cast(ID_CODES[id_bytes]), ends[done:upto]
                        done = upto
                    first += len(values)
        except pa.ArrowException as error:
            raise ValueError(str(error).splitlines()[0]) from None
        if first != tokens:
            raise ValueError(f"it holds {first:,} tokens, not {tokens:,}")


def _row_groups(blocks: Iterable[Block], id_bytes: int, tokens: int) -> Iterator[tuple[bytes, list[int], int]]:
    """Yield the bytes of the ids of some whole documents, where each of them ends in these, and how many end.

    A document that continues in the next shard is a row that does not end.
    """
    waiting, first = bytearray(), 0  # ids that belong to no row group yet, and where they start in the shard
    ends: list[int] = []
    for ids, more in blocks:
        waiting += ids
        ends += more
        # Where a row group ends must not depend on the blocks.
        while (rows := min(bisect_left(ends, first + _ROW_GROUP_IDS) + 1, _ROW_GROUP_ROWS)) <= len(ends):
            size = (ends[rows - 1] - first) * id_bytes
            yield bytes(waiting[:size]), [end - first for end in ends[:rows]], rows
            first = ends[rows - 1]
            del waiting[:size], ends[:rows]
    last = ends[-1] if ends else first
    unfinished = [] if last == tokens else [tokens]
    if ends or unfinished:
        yield bytes(waiting), [end - first for end in [*ends, *unfinished]], len(ends)
