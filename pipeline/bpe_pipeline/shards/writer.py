"""The one writer: it takes the blocks of sources in turn, and journals how far it is.

A run that was stopped cuts the open buckets back to what the journal says, and resumes with the source that it names.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from bpe_pipeline.base import system
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.shards.blocks import IdBlock, Made, Rest
from bpe_pipeline.shards.bucket import BucketFiles, Extent, OpenBucket
from bpe_pipeline.shards.journal import DEALING, Journal, Position
from bpe_pipeline.shards.route import Route, Routed, Start
from bpe_pipeline.shards.split_writer import ClosedShard, SplitWriter

_PAUSE_S, _MOST_UNSAVED_BYTES = 1.0, 64 << 20  # between two states of the journal
_SAVING_SHARE = 20  # saving takes at most this part of the time, where many buckets are open


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

    def write(self, made: Iterable[Made]) -> Position:
        """Write all blocks from the position on, to the end of the last source; returns the position behind it."""
        rest = Rest(self._add, self._ids, self._ends)
        for taken in made:
            if isinstance(taken, ChunkStatistics):
                self._end_source(taken)
                rest = Rest(self._add)
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
