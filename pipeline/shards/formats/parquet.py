"""Parquet with a column of lists each: `input_ids`, and what else the rows have. Arrow is imported for it alone."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from pipeline.shards.formats.shard_format import (
    BLOCK_IDS,
    ID_CODES,
    Block,
    Layout,
    Rows,
    ShardFacts,
    ShardFormat,
    row_groups,
)
from pipeline.storage import Location, arrow_source

_ROWS_AT_ONCE = 1024


class ParquetRows(ShardFormat):
    """The format parquet. The last row may be a document that continues in the next shard."""

    alone: ClassVar[bool] = True

    def names(self, index: int, shards: int, *, offsets: bool) -> tuple[str, str | None]:  # noqa: ARG002
        """Return the name of a shard."""
        return f"shard-{index:05d}.parquet", None

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        """Write the file."""
        assert second is None, "rows separate documents"
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds = {name: getattr(pa, dtype)() for name, dtype in layout.columns.items()}
        lists = {name: pa.list_(pa.field("element", kind, nullable=False)) for name, kind in kinds.items()}
        schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in lists.items()])
        options: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
        written = 0
        with pq.ParquetWriter(path, schema, use_dictionary=False, write_statistics=False, **options) as writer:
            for group in row_groups(layout, rows):
                ends = pa.py_buffer(array("i", [0, *group.ends]))
                columns = [
                    list_array(group.columns[name], dtype, kinds[name], ends, lists[name])
                    for name, dtype in layout.columns.items()
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
                written += len(group.ends)
        return written

    def read(self, where: Location, second: Location | None, layout: Layout, facts: ShardFacts) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        assert second is None, "rows separate documents"
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(arrow_source(where)) as file:
                batches = file.iter_batches(_ROWS_AT_ONCE, columns=["input_ids"], use_threads=False)
                yield from blocks_of((batch.column(0) for batch in batches), layout, facts)
        except pa.ArrowException as error:
            raise ValueError(str(error).splitlines()[0]) from None


def list_array(values: bytes, dtype: str, kind: Any, ends: Any, lists: Any = None) -> Any:
    """Return Arrow's array of lists from the bytes of values of a dtype, as values of this kind."""
    import pyarrow as pa

    stored = getattr(pa, dtype)()
    flat = pa.Array.from_buffers(stored, len(values) * 8 // stored.bit_width, [None, pa.py_buffer(values)])
    if stored != kind:
        flat = flat.cast(kind)
    rows = ends.size // 4 - 1
    return pa.ListArray.from_buffers(lists or pa.list_(kind), rows, [None, ends], children=[flat])


def blocks_of(columns: Iterable[Any], layout: Layout, facts: ShardFacts) -> Iterator[Block]:
    """Yield blocks of Arrow's arrays of lists; raises `ValueError` if they hold another number of tokens."""
    import pyarrow as pa

    first = ended = 0
    rows, id_bytes = layout.ended(facts), layout.id_bytes
    for column in columns:
        start, *stops = column.offsets.to_pylist()
        ends = array("Q", (first + stop - start for stop in stops[: max(rows - ended, 0)]))
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
    if first != facts.tokens:
        raise ValueError(f"it holds {first:,} tokens, not {facts.tokens:,}")
