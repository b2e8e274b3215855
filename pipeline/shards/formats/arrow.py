"""What `datasets.save_to_disk` writes: Arrow IPC streams of list columns, and the JSON files that describe them.

The features are of type "Sequence", which datasets 3 to 5 read. Arrow is imported for it alone.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pipeline.shards.formats.parquet import blocks_of, list_array
from pipeline.shards.formats.shard_format import Block, Layout, Rows, ShardFacts, ShardFormat, row_groups
from pipeline.storage import Location, arrow_source

STORED = {"uint16": "int32", "uint32": "int32"}  # as trainers have them; all others stay


class SavedDataset(ShardFormat):
    """The format arrow."""

    split_directories: ClassVar[bool] = True

    def names(self, index: int, shards: int, *, offsets: bool) -> tuple[str, str | None]:  # noqa: ARG002
        """Return the name of a shard."""
        return f"data-{index:05d}-of-{shards:05d}.arrow", None

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        """Write the stream, a batch per row group."""
        assert second is None, "rows separate documents"
        import pyarrow as pa

        kinds = {name: getattr(pa, dtype)() for name, dtype in _stored(layout).items()}
        schema = pa.schema([(name, pa.list_(kind)) for name, kind in kinds.items()])
        written = 0
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            for group in row_groups(layout, rows):
                ends = pa.py_buffer(array("i", [0, *group.ends]))
                columns = [list_array(group.columns[name], layout.columns[name], kinds[name], ends) for name in kinds]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
                written += len(group.ends)
        return written

    def read(self, where: Location, second: Location | None, layout: Layout, facts: ShardFacts) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        assert second is None, "rows separate documents"
        import pyarrow as pa

        try:
            with pa.ipc.open_stream(arrow_source(where)) as reader:
                yield from blocks_of((batch.column(0) for batch in reader), layout, facts)
        except pa.ArrowException as error:
            raise ValueError(str(error).splitlines()[0]) from None

    def index(self, layout: Layout, splits: Mapping[str, Sequence[ShardFacts]]) -> dict[str, str]:
        """Return `state.json` and `dataset_info.json` of each split, and `dataset_dict.json` if there are two."""
        values = {name: {"dtype": dtype, "_type": "Value"} for name, dtype in _stored(layout).items()}
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


def _stored(layout: Layout) -> dict[str, str]:
    """Return the dtypes in the file."""
    return {name: STORED.get(dtype, dtype) for name, dtype in layout.columns.items()}
