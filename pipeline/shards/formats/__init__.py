"""The formats of shards: one module a format writes shards and reads them back.

`FORMATS[name]` is a `ShardFormat`; the name is also the extension of the files. To add a format, add its module here
and its name to the option `shard_format`.
"""

from pipeline.shards.formats.ids_end_to_end import IdsEndToEnd
from pipeline.shards.formats.parquet import DocumentRows
from pipeline.shards.formats.shard_format import ShardFormat

FORMATS: dict[str, ShardFormat] = {
    "npy": IdsEndToEnd(npy=True),
    "bin": IdsEndToEnd(npy=False),
    "parquet": DocumentRows(),
}
