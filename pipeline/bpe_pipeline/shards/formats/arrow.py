"""Formats that Arrow writes, a column of lists each for `input_ids` and what else the rows have: Parquet, and what
`datasets.save_to_disk` writes: Arrow IPC streams, and the JSON files that describe them.

The features of the latter are of type "Sequence", which datasets 3 to 5 read. Arrow is imported for these alone.
"""

import contextlib
import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bpe_pipeline.shards.formats import (
    ID_CODES,
    Block,
    Layout,
    RowGroup,
    Rows,
    ShardFacts,
    ShardFormat,
    row_groups,
    value_bytes,
)
from bpe_pipeline.storage import Location, arrow_source

_ROWS_AT_ONCE = 1024


class ParquetRows(ShardFormat):
    """The format parquet. The last row may be a document that continues in the next shard."""

    alone: ClassVar[bool] = True
    extension: ClassVar[str] = "parquet"

    def memory_bytes(self, layout: Layout) -> int | None:
        """Return what Arrow takes for levels and pages, of one column at a time (measured: 23 to 25)."""
        return 26

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        """Write the file, a row group or a batch for each group of rows."""

        schema, written = self._schema(layout), 0
        with self._writer(path, schema) as writer:
            for group in row_groups(layout, rows):
                written += len(group.ends)
                writer.write_batch(_batch(group, layout, schema))
                del group  # before the next one, which may be as large as the longest row
        return written

    def read(self, where: Location, second: Location | None, layout: Layout, facts: ShardFacts) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        import pyarrow as pa

        try:
            [column, *_] = layout.columns
            columns = (batch.column(column) for batch in self._batches(where, column))
            yield from _blocks(columns, layout, facts)
        except pa.ArrowException as error:
            raise ValueError(str(error).splitlines()[0]) from None

    def _schema(self, layout: Layout) -> Any:
        import pyarrow as pa

        kinds = ((name, getattr(pa, dtype)()) for name, dtype in layout.columns.items())
        lists = ((name, pa.list_(pa.field("element", kind, nullable=False))) for name, kind in kinds)
        return pa.schema([pa.field(name, kind, nullable=False) for name, kind in lists])

    def _writer(self, path: Path, schema: Any) -> Any:
        import pyarrow.parquet as pq

        options: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
        return pq.ParquetWriter(path, schema, use_dictionary=False, write_statistics=False, **options)

    def _batches(self, where: Location, column: str) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(arrow_source(where)) as file:
            yield from file.iter_batches(_ROWS_AT_ONCE, columns=[column], use_threads=False)


class SavedDataset(ParquetRows):
    """The format arrow."""

    alone: ClassVar[bool] = False
    split_directories: ClassVar[bool] = True
    stem: ClassVar[str] = "data-{index:05d}-of-{shards:05d}"
    extension: ClassVar[str] = "arrow"

    def stored_dtype(self, dtype: str) -> str:
        """Return signed types for ids, as trainers have them; all others stay."""
        return "int32" if dtype in ("uint16", "uint32") else dtype

    def memory_bytes(self, layout: Layout) -> int | None:
        """Return the bytes of the values whose type changes."""
        dtypes = ((self.stored_dtype(dtype), dtype) for dtype in layout.columns.values())
        return sum(value_bytes(stored) for stored, dtype in dtypes if stored != dtype)

    def _schema(self, layout: Layout) -> Any:
        import pyarrow as pa

        columns = {name: self.stored_dtype(dtype) for name, dtype in layout.columns.items()}
        return pa.schema([(name, pa.list_(getattr(pa, dtype)())) for name, dtype in columns.items()])

    @contextlib.contextmanager
    def _writer(self, path: Path, schema: Any) -> Iterator[Any]:
        import pyarrow as pa

        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            yield writer

    def _batches(self, where: Location, column: str) -> Iterator[Any]:
        import pyarrow as pa

        with pa.ipc.open_stream(arrow_source(where)) as reader:
            yield from reader

    def index(self, layout: Layout, splits: Mapping[str, Sequence[ShardFacts]]) -> dict[str, str]:
        """Return `state.json` and `dataset_info.json` of each split, and `dataset_dict.json` if there are two."""
        columns = layout.columns.items()
        values = {name: {"dtype": self.stored_dtype(dtype), "_type": "Value"} for name, dtype in columns}
        features = {name: {"feature": value, "_type": "Sequence"} for name, value in values.items()}
        files = {}
        for directory, shards in splits.items():
            split, prefix = directory or "train", directory and f"{directory}/"
            sizes: dict[str, Any] = {"num_bytes": sum(shard.bytes for shard in shards)}
            sizes["num_examples"] = sum(shard.samples for shard in shards)
            info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
            info["splits"] = {split: {"name": split, **sizes, "dataset_name": "bpe-pipeline"}}
            state: dict[str, Any] = {
                "_data_files": [{"filename": shard.name.rpartition("/")[2]} for shard in shards],
                "_fingerprint": hashlib.sha256("".join(shard.crc32 for shard in shards).encode()).hexdigest()[:16],
                "_format_columns": None,
                "_format_kwargs": {},
                "_format_type": None,
                "_output_all_columns": False,
                "_split": split,
            }
            files[f"{prefix}state.json"] = json.dumps(state, indent=2)
            files[f"{prefix}dataset_info.json"] = json.dumps(info, indent=2)
        if any(splits):
            files["dataset_dict.json"] = json.dumps({"splits": list(splits)})
        return files


PARQUET, ARROW = ParquetRows(), SavedDataset()


def _batch(group: RowGroup, layout: Layout, schema: Any) -> Any:
    """Return the batch of a group, whose columns are then gone."""
    import pyarrow as pa

    buffers, columns = [None, pa.py_buffer(array("i", [0, *group.ends]))], []
    for field in schema:
        stored, values = layout.columns[field.name], group.columns.pop(field.name)
        kind, count = getattr(pa, stored)(), len(values) // value_bytes(stored)
        flat = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)]).cast(field.type.value_type)
        columns.append(pa.ListArray.from_buffers(field.type, len(group.ends), buffers, children=[flat]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _blocks(columns: Iterable[Any], layout: Layout, facts: ShardFacts) -> Iterator[Block]:
    """Yield blocks of Arrow's arrays of lists."""
    import pyarrow as pa

    first = ended = 0
    rows, id_bytes = layout.ended(facts), layout.id_bytes
    for column in columns:
        start, *stops = column.offsets.to_pylist()
        ends = array("Q", (first + stop - start for stop in stops[: max(rows - ended, 0)]))
        ended += len(stops)
        values = column.flatten().cast(pa.uint16() if id_bytes == 2 else pa.uint32(), safe=False)
        data = memoryview(values.buffers()[1] or b"")[values.offset * id_bytes :][: len(values) * id_bytes]
        yield data.cast(ID_CODES[id_bytes]), ends
        first += len(values)
