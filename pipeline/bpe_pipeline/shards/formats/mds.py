"""MDS, which mosaicml-streaming reads: a sample per row, each column a NumPy array; and `index.json`.

A shard is the number of samples, where each starts, the description of the columns, and the samples.
"""

import json
import shutil
import struct
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.shards.formats import (
    ID_CODES,
    Block,
    Layout,
    Rows,
    ShardFacts,
    ShardFormat,
    row_groups,
    value_bytes,
)
from bpe_pipeline.storage import Location, open_file

_SHAPE = struct.Struct("<BI")  # one dimension, and its size in four bytes


class StreamingShards(ShardFormat):
    """The format mds."""

    split_directories: ClassVar[bool] = True
    extension: ClassVar[str] = "mds"

    def write(self, path: Path, second: Path | None, layout: Layout, rows: Iterable[Rows]) -> int:
        """Write the samples, and then the shard, whose beginning says where they are."""
        sizes = array("I")
        names = sorted(layout.columns)
        widths = {name: value_bytes(layout.columns[name]) for name in names}
        with tempfile.TemporaryFile(dir=path.parent) as samples:  # without a name, so that no killed run leaves it
            for group in row_groups(layout, rows):
                start = 0
                for end in group.ends:
                    lengths = [_SHAPE.size + (end - start) * widths[name] for name in names]
                    samples.write(struct.pack(f"<{len(names)}I", *lengths))
                    for name in names:
                        samples.write(_SHAPE.pack(1 << 2 | 2, end - start))
                        samples.write(memoryview(group.columns[name])[start * widths[name] : end * widths[name]])
                    sizes.append(4 * len(names) + sum(lengths))
                    start = end
                del group  # before the next one, which may be as large as the longest row
            samples.seek(0)
            with path.open("wb") as file:
                file.write(self._head(layout, sizes))
                shutil.copyfileobj(samples, file)
        return len(sizes)

    def _head(self, layout: Layout, sizes: "array[int]") -> bytes:
        """Return what comes before the samples."""
        described = json.dumps(_description(layout), sort_keys=True).encode()
        at = 4 + 4 * (len(sizes) + 1) + len(described)
        if at + sum(sizes) >= 1 << 32:
            raise UsageError("a shard of mds has less than 4 GiB: give a smaller --shard-size")
        return struct.pack("<I", len(sizes)) + array("I", accumulate(sizes, initial=at)).tobytes() + described

    def read(self, where: Location, second: Location | None, layout: Layout, facts: ShardFacts) -> Iterator[Block]:
        """Yield the blocks of a shard, each of one row."""
        [name, *_], id_bytes, first, ended = layout.columns, layout.id_bytes, 0, layout.ended(facts)
        try:
            with open_file(where) as file:
                (samples,) = struct.unpack("<I", file.read_at(0, 4))
                offsets = array("I", file.read_at(4, 4 * (samples + 1)))
                start = 4 + 4 * len(offsets)
                names = json.loads(file.read_at(start, offsets[0] - start))["column_names"]  # more than are read
                column = names.index(name)
                for number in range(samples):
                    data = file.read_at(offsets[number], offsets[number + 1] - offsets[number])
                    lengths = struct.unpack_from(f"<{len(names)}I", data)
                    at = 4 * len(names) + sum(lengths[:column])
                    ids = memoryview(data)[at + _SHAPE.size : at + lengths[column]].cast(ID_CODES[id_bytes])
                    first += len(ids)
                    yield ids, array("Q", [first] if number < ended else [])
        except (struct.error, IndexError, KeyError, TypeError, ValueError):
            raise ValueError("its samples are not as they were written") from None

    def index(self, layout: Layout, splits: Mapping[str, Sequence[ShardFacts]]) -> dict[str, str]:
        """Return `index.json` of each split."""
        files = {}
        for directory, shards in splits.items():
            listed = []
            for shard in shards:
                raw = {"basename": shard.name.rpartition("/")[2], "bytes": shard.bytes, "hashes": {}}
                described = {"raw_data": raw, "samples": shard.samples, "version": 2, "zip_data": None}
                listed.append(_description(layout) | described)
            name = f"{directory}/index.json" if directory else "index.json"
            files[name] = json.dumps({"shards": listed, "version": 2}, sort_keys=True)
        return files


MDS = StreamingShards()


def _description(layout: Layout) -> dict[str, Any]:
    names = sorted(layout.columns)
    dtypes = [f"ndarray:{layout.columns[name]}" for name in names]
    columns = {"column_encodings": dtypes, "column_names": names, "column_sizes": [None] * len(names)}
    return {**columns, "compression": None, "format": "mds", "hashes": [], "size_limit": None, "version": 2}
