"""The formats of shards: one module a format writes rows to files and reads them back.

A format is a `ShardFormat` that an entry point of the group `bpe_pipeline.shard_formats` names, in this package's
`pyproject.toml` as in another's. The name of the entry point is the name of the format and, where a shard is complete
alone, its extension.
"""

from functools import cache

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.run.values import shard_formats
from bpe_pipeline.shards.formats.shard_format import ShardFormat


@cache
def shard_format(name: str) -> ShardFormat:
    """Return the format of a name; raises `InputError` for one that no installed package has."""
    registered = shard_formats()
    if name not in registered:
        known = ", ".join(registered)
        raise InputError(f"the shard format {name!r} is none of {known}: install the package with it")
    format_: ShardFormat = registered[name].load()
    return format_


def single_formats() -> list[str]:
    """Return the formats whose shards are complete alone, so that one can be a single file."""
    return [name for name in shard_formats() if shard_format(name).alone]
