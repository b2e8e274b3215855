"""The formats of shards: one module a format writes rows to files and reads them back.

`shard_format(name)` returns a `ShardFormat`. To add a format here, add its module to `FORMATS` and its name to
`SHARD_FORMATS` of `pipeline.run.values`; another package adds one with an entry point of the group
`bpe_pipeline.shard_formats` that names an object with the same attributes.
"""

from pipeline.base.errors import InputError
from pipeline.run.values import foreign_formats
from pipeline.shards.formats.arrow import ParquetRows, SavedDataset
from pipeline.shards.formats.ids_end_to_end import Bin, IndexedDataset, Npy
from pipeline.shards.formats.mds import StreamingShards
from pipeline.shards.formats.shard_format import ShardFormat

FORMATS: dict[str, ShardFormat] = {
    "npy": Npy(),
    "bin": Bin(),
    "parquet": ParquetRows(),
    "arrow": SavedDataset(),
    "megatron": IndexedDataset(),
    "mds": StreamingShards(),
}


def shard_format(name: str) -> ShardFormat:
    """Return the format of a name; raises `InputError` for one that neither this nor another package has."""
    if name in FORMATS:
        return FORMATS[name]
    foreign = foreign_formats()
    if name not in foreign:
        known = ", ".join([*FORMATS, *foreign])
        raise InputError(f"the shard format {name!r} is none of {known}: install the package with it")
    found: ShardFormat = foreign[name].load()
    return found
