"""The journal of the one writer: how far it is, in a file of a size that does not depend on the corpus.

It is replaced when what it speaks of is on disk, and is on disk itself before anything that it speaks of is changed.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.directory import fingerprint
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.shards.bucket import Extent
from bpe_pipeline.shards.split_writer import ClosedShard, OpenShard
from bpe_pipeline.storage import read_json
from bpe_pipeline.storage.atomic import write_whole

DEALING, WRITING = "dealing", "writing"  # documents out to buckets that will be sorted; shards


@dataclass(frozen=True)
class Position:
    """How far the writer is.

    pass_: `DEALING` or `WRITING`. source: the next chunk or, to write what was dealt out, bucket; ids, ends: of it that
    are in buckets; documents: that ended before. statistics: of the chunks that were read. dealt: the buckets to sort;
    shards: the open one of each split; closed: shards that get no more ids, whose files are not cut to size yet.
    left_out: ids of each split that fill no row, at the end; ended: whether there is no further source.
    """

    pass_: str
    source: int = 0
    ids: int = 0
    ends: int = 0
    documents: int = 0
    statistics: ChunkStatistics = field(default_factory=ChunkStatistics)
    dealt: Mapping[str, Extent] = field(default_factory=dict)
    shards: Mapping[str, OpenShard] = field(default_factory=dict)
    closed: Mapping[str, tuple[ClosedShard, ...]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    ended: bool = False


@dataclass(frozen=True)
class Journal:
    """The journal at a path. of: what its encoding depends on; that of another is none."""

    path: Path
    of: str

    def load(self) -> Position | None:
        """Return the position, which another process may be replacing; None if there is none, or a damaged one."""
        with suppress(FileNotFoundError, NotADirectoryError, InputError, ValueError, TypeError, KeyError):
            digest, position = read_json(self.path)
            if digest == fingerprint(self.of, position):
                return stored(Position, position)
        return None

    def save(self, position: Position) -> None:
        """Replace the journal; it is on disk then. Raises `RunDirectoryError`."""
        value: Any = plain(position)
        write_whole(self.path, json.dumps([fingerprint(self.of, value), value]))
