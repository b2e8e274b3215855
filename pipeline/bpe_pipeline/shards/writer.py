"""The one writer: it takes the blocks of sources in turn, and journals how far it is.

The journal is a file of a size that does not depend on the corpus. It is replaced when what it speaks of is on disk,
and is on disk itself before anything that it speaks of is changed. A run that was stopped cuts the open buckets back to
what the journal says, and resumes with the source that it names.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.directory import fingerprint
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.shards.blocks import IdBlock, SourceItem, SourceResumer
from bpe_pipeline.shards.bucket import BucketFiles, Extent, OpenBucket
from bpe_pipeline.shards.route import Route, Routed, Start
from bpe_pipeline.shards.split_writer import ClosedShard, OpenShard, SplitWriter
from bpe_pipeline.storage import read_json
from bpe_pipeline.storage.atomic import write_whole

DEALING, WRITING = "dealing", "writing"  # documents out to buckets that will be sorted; shards
_PAUSE_S, _MOST_UNSAVED_BYTES = 1.0, 64 << 20  # between two states of the journal
_SAVING_SHARE = 20  # saving takes at most this part of the time, where many buckets are open


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


class NotAsWritten(Exception):  # noqa: N818 - it is caught, never shown
    """What the journal speaks of is missing or was changed."""


class Sink(Protocol):
    """What gets the blocks of a bucket."""

    def add(self, ids: memoryview, ends: memoryview, first: int) -> None:
        """Write a block."""

    def sync(self) -> None:
        """Wait until all of it is on disk."""

    def close(self) -> None:
        """Close all files."""


class BucketWriter:
    """A bucket that will be sorted."""

    def __init__(self, files: BucketFiles) -> None:
        self._files = files
        self._open: OpenBucket | None = None

    @property
    def extent(self) -> Extent:
        """How much the bucket has."""
        return self._open.extent if self._open else Extent()

    def resume(self, extent: Extent) -> bool:
        """Resume at this extent; returns whether the files are as they were written."""
        if extent == Extent():
            return True
        self._open = OpenBucket(self._files)
        return self._open.resume(extent)

    def add(self, ids: memoryview, ends: memoryview, first: int) -> None:  # noqa: ARG002 - a sink's
        """Write ids and entries."""
        self._open = self._open or OpenBucket(self._files)
        self._open.append(ids, ends)

    def sync(self) -> None:
        """Wait until all of it is on disk."""
        if self._open:
            self._open.sync()

    def close(self) -> None:
        """Close the files."""
        if self._open:
            self._open.close()


@dataclass
class Sinks:
    """The buckets of a pass. seal: makes the files of a closed shard of a split what they stay."""

    buckets: Mapping[str, BucketWriter]
    splits: Mapping[str, SplitWriter]
    seal: Callable[[str, ClosedShard], object]

    @property
    def all(self) -> dict[str, Sink]:
        """All sinks by name."""
        return {**self.buckets, **self.splits}

    def resume(self, position: Position) -> None:
        """Resume at a position; raises `NotAsWritten`."""
        for split, closed in position.closed.items():
            for shard in closed:
                self.seal(split, shard)
        whole = [self.splits[split].resume(shard) for split, shard in position.shards.items()]
        if position.pass_ == DEALING:
            whole += [self.buckets[name].resume(extent) for name, extent in position.dealt.items()]
        if not all(whole):
            raise NotAsWritten

    def state(self, position: Position) -> Position:
        """Return the position with the state of all buckets."""
        shards = {split: writer.state for split, writer in self.splits.items()}
        closed = {split: tuple(taken) for split, writer in self.splits.items() if (taken := writer.take_closed())}
        if position.pass_ == DEALING:
            dealt = {name: writer.extent for name, writer in self.buckets.items() if writer.extent != Extent()}
            position = replace(position, dealt=dealt)
        return replace(position, shards=shards, closed=closed)


class ShardWriter:
    """Writes what a route makes of blocks to its sinks, from a position on; closes them when its context ends."""

    def __init__(self, journal: Journal, route: Route, sinks: Sinks, position: Position) -> None:
        self._journal, self._route, self._sinks, self.position = journal, route, sinks, position
        self._all = sinks.all
        self._source, self._ids, self._ends = position.source, position.ids, position.ends
        self._documents, self._statistics = position.documents, position.statistics
        self.saved_source = position.source  # what is before it is not needed any more
        self._pause_s = float(os.environ.get("BPE_PIPELINE_CHECKPOINT_S", _PAUSE_S))
        self._saved_at, self._unsaved_bytes = time.monotonic(), 0

    def __enter__(self) -> "ShardWriter":
        try:
            self._sinks.resume(self.position)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        self._route.close()
        for sink in self._all.values():
            sink.close()

    def write(self, made: Iterable[SourceItem]) -> Position:
        """Write all blocks from the position on, to the end of the last source; returns the position behind it."""
        rest = SourceResumer(self._add, self._ids, self._ends)
        for taken in made:
            if isinstance(taken, ChunkStatistics):
                self._end_source(taken)
                rest = SourceResumer(self._add)
            else:
                rest.add(*taken)
            if self._unsaved_bytes > _MOST_UNSAVED_BYTES or time.monotonic() - self._saved_at > self._pause_s:
                self.save()
        self._pass_on(self._route.end())
        left_out = {split: writer.end() for split, writer in self._sinks.splits.items()}
        self._move(0, 0)
        self.position = replace(self.position, left_out=left_out, ended=True)
        self.save()
        return self.position

    def _add(self, block: IdBlock) -> None:
        first = self._ids
        self._pass_on(self._route.buckets(block, Start(self._source, first, self._documents)))
        self._ids += len(block.ids)
        self._ends += len(block.ends)
        self._documents += len(block.ends)
        self._unsaved_bytes += block.ids.nbytes
        if (passed := self._route.passed(block, first)) is not None:
            self._move(passed, self._ends)

    def _pass_on(self, routed: Routed) -> None:
        for bucket, (ids, ends), first in routed:
            self._all[bucket].add(ids, ends, first)

    def _move(self, ids: int, ends: int) -> None:
        """Put the position behind that much of the source: what is before it is in buckets."""
        self.position = replace(
            self.position,
            source=self._source,
            ids=ids,
            ends=ends,
            documents=self._documents,
            statistics=self._statistics,
        )

    def _end_source(self, statistics: ChunkStatistics) -> None:
        whole = self.position.source == self._source and self.position.ids == self._ids
        self._statistics += statistics
        self._source, self._ids, self._ends = self._source + 1, 0, 0
        if whole:  # otherwise a document that started in it waits for its end
            self._move(0, 0)

    def save(self) -> None:
        """Save the position, with all that is before it on disk, and then seal the shards that are closed."""
        started = time.monotonic()
        for sink in self._all.values():
            sink.sync()
        system.flush(self._journal.path.parent)
        self.position = self._sinks.state(self.position)
        self._journal.save(self.position)
        for split, closed in self.position.closed.items():
            for shard in closed:
                self._sinks.seal(split, shard)
        self.saved_source, now = self.position.source, time.monotonic()
        self._saved_at, self._unsaved_bytes = now + (now - started) * _SAVING_SHARE, 0
