"""The one writer: it takes the blocks of sources in turn, sends them along a route, and journals how far it is.

A run that was stopped cuts the open buckets back to what the journal says, and resumes with the source that it names.
Where a shard ends, the next one begins: that depends on the ids and the ends of documents alone, not on the blocks in
which they come.
"""

import json
import os
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import InputError, RunDirectoryError, os_error_as
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.directory import fingerprint
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.shards.blocks import NO_ENDS, IdBlock, SourceItem, SourceResumer
from bpe_pipeline.shards.bucket import (
    FREE_TOKENS,
    MOST_ROW,
    REMEDY,
    BucketFiles,
    ClosedShard,
    Extent,
    OpenBucket,
    ShardRows,
    own_file,
)
from bpe_pipeline.shards.formats import ShardFacts
from bpe_pipeline.shards.route import Route, Routed, Start
from bpe_pipeline.storage import read_json
from bpe_pipeline.storage.atomic import write_whole
from bpe_pipeline.storage.lock import require_ours

JOURNAL, FINISHED = "journal", ".finished"
_PAUSE_S, _MOST_UNSAVED_BYTES = 1.0, 64 << 20  # between two states of the journal
_SAVING_SHARE = 20  # saving takes at most this part of the time, where many buckets are open
_MOST_UNSYNCED = 16  # shards of a split that are closed, but not yet on disk: their files are open


@dataclass
class OpenShard:
    """The state of a bucket that is written. index: of the shard; extent: of its files.

    last_end, ended: the last end of a document that is not behind the most ids of a shard, and how many ends are not;
    next_end: the first one behind.
    """

    index: int = 0
    extent: Extent = Extent()
    last_end: int = 0
    ended: int = 0
    next_end: int | None = None


@dataclass(frozen=True)
class Position:
    """How far the writer is.

    source: the next chunk or, where documents are dealt out, bucket; ids, ends: of it that are in buckets; documents:
    that ended before; begun: ids so far of the document that has not ended; longest: ids of the longest document, if
    that takes memory. statistics: of the chunks that were read. dealt: the buckets that all documents were dealt out
    to; None before that, and where their order stays. shards: the open bucket of each name; closed: shards that get no
    more ids, whose files are not cut to size yet. left_out: ids of each split that fill no row, at the end; ended:
    whether there is no further source.
    """

    source: int = 0
    ids: int = 0
    ends: int = 0
    documents: int = 0
    begun: int = 0
    longest: int = FREE_TOKENS
    statistics: ChunkStatistics = field(default_factory=ChunkStatistics)
    dealt: tuple[Extent, ...] | None = None
    shards: Mapping[str, OpenShard] = field(default_factory=dict)
    closed: Mapping[str, tuple[ClosedShard, ...]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    ended: bool = False


class Journal:
    """The journal at a path: the position of the writer, and the facts of finished shards.

    The position is replaced when what it speaks of is on disk, and is on disk itself before anything that it speaks of
    is changed; its size does not depend on the corpus. A line is appended for each shard that is finished.

    of: what the encoding depends on; the journal of another is none.
    """

    def __init__(self, path: Path, of: str) -> None:
        self.path, self._of = path, of
        self._lines = path.with_name(FINISHED)

    def load(self) -> Position | None:
        """Return the position, which another process may be replacing; None if there is none, or a damaged one."""
        with suppress(FileNotFoundError, NotADirectoryError, InputError, ValueError, TypeError, KeyError):
            digest, position = read_json(self.path)
            if digest == fingerprint(self._of, position):
                return stored(Position, position)
        return None

    def save(self, position: Position) -> None:
        """Replace the position; it is on disk then. Raises `RunDirectoryError`."""
        value: Any = plain(position)
        write_whole(self.path, json.dumps([fingerprint(self._of, value), value]))

    def finished(self) -> dict[tuple[str, int], ShardFacts]:
        """Return the facts of finished shards, without their names, by split and index."""
        facts = {}
        with suppress(FileNotFoundError):
            for line in self._lines.read_bytes().splitlines():
                with suppress(ValueError, TypeError, KeyError):  # the last line of a process that was killed
                    split, index, of_shard = json.loads(line)
                    facts[split, index] = stored(ShardFacts, of_shard)
        return facts

    def add(self, split: str, index: int, facts: ShardFacts) -> None:
        """Append the facts of a shard that is on disk; they are on disk then."""
        line = json.dumps([split, index, plain(facts)])
        with os_error_as(RunDirectoryError, f"{self._lines} cannot be written", REMEDY), own_file(self._lines) as file:
            file.seek(0, os.SEEK_END)
            file.write(f"\n{line}".encode())
            file.flush()
            os.fsync(file.fileno())


class NotAsWritten(Exception):  # noqa: N818 - it is caught, never shown
    """What the journal speaks of is missing or was changed."""


class BucketWriter:
    """Writes what a route sends to one name: the shards of a split, or a bucket to sort, which never ends.

    files: of a shard by its index; rows: of shards, None to sort; most: ids of a shard.
    """

    def __init__(self, files: Callable[[int], BucketFiles], rows: ShardRows | None = None, most: int = 0) -> None:
        self._files, self._rows = files, rows
        self._most = max(most // rows.unit * rows.unit, rows.least) if rows else 0
        self._state = OpenShard()
        self._shard: OpenBucket | None = None
        self._unsynced, self._closed = list[OpenBucket](), list[ClosedShard]()

    @property
    def state(self) -> OpenShard:
        """What `resume` needs."""
        return replace(self._state, extent=self._shard.extent if self._shard else Extent())

    def resume(self, state: OpenShard) -> bool:
        """Resume with this shard; returns whether its files are as they were written."""
        self._state = replace(state)
        return state.extent == Extent() or self._opened().resume(state.extent)

    def add(self, ids: memoryview, ends: memoryview, first: int) -> None:
        """Write ids; `ends`, where documents end, are counted as `first` is, the position of the first id.

        In a bucket to sort they are keys and sizes.
        """
        if self._rows is None:
            return self._opened().append(ids, ends)
        at, after = first, first + len(ids)
        while True:
            shard = self._opened()
            shift = shard.extent.ids - at
            border = self._border(self._rows, ends, shift, after + shift)
            if border is None:
                return self._append(ids[at - first :], ends, shift)
            if border < shard.extent.ids:  # what is behind it, in which no document ends, begins the next shard
                shard.flush()
                self._close(border, self._state.ended)
                for rest, _ in shard.files.blocks(border, shard.extent.ids):
                    self._append(rest, NO_ENDS, 0)
                continue
            upto = bisect_right(ends, border - shift)
            self._append(ids[at - first : border - shift - first], ends[:upto], shift)
            at, ends = border - shift, ends[upto:]
            self._close(border, shard.extent.numbers)

    def _border(self, rows: ShardRows, ends: memoryview, shift: int, after: int) -> int | None:
        """Return where the shard ends; None if that is not before `after`: more documents may end there."""
        state, upto = self._state, bisect_right(ends, self._most - shift)
        if upto:
            state.last_end, state.ended = ends[upto - 1] + shift, state.ended + upto
        if after <= self._most:
            return None
        border: int | None = self._most
        if rows.whole:
            if state.next_end is None and upto < len(ends):
                state.next_end = ends[upto] + shift
            border = state.last_end or (state.next_end if rows.cut is None else self._most // rows.cut * rows.cut)
        return border if border is not None and border < after else None

    def _opened(self) -> OpenBucket:
        if self._shard is None:
            self._shard = OpenBucket(self._files(self._state.index))
        return self._shard

    def _append(self, ids: memoryview, ends: memoryview, shift: int) -> None:
        shard = self._opened()
        numbers = memoryview(array("Q", (end + shift for end in ends))) if shift and shard.files.with_numbers else ends
        shard.append(ids, numbers)

    def _close(self, ids: int, documents: int) -> None:
        shard, index = self._opened(), self._state.index
        crc32 = shard.extent.ids_crc32 if shard.extent.ids == ids else None
        self._closed.append(ClosedShard(index, ids, documents, crc32))
        self._unsynced.append(shard)
        self._state, self._shard = OpenShard(index + 1), None
        if len(self._unsynced) > _MOST_UNSYNCED:
            self._sync_closed()

    def _sync_closed(self) -> None:
        for shard in self._unsynced:
            shard.sync()
            shard.close()
        self._unsynced.clear()

    def sync(self) -> None:
        """Wait until all that was written is on disk."""
        self._sync_closed()
        if self._shard is not None:
            self._shard.sync()

    def close(self) -> None:
        """Close all files."""
        for shard in filter(None, (*self._unsynced, self._shard)):
            shard.close()

    def take_closed(self) -> list[ClosedShard]:
        """Return the shards that were closed since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def end(self) -> int:
        """Close the last shard, the first even if it is empty; returns how many of its ids fill no row."""
        if self._rows is None or (self._shard is None and self._state.index):
            return 0
        shard = self._opened()
        left_out = shard.extent.ids % self._rows.unit
        ids, documents = shard.extent.ids - left_out, shard.extent.numbers
        shard.flush()
        if left_out:
            documents = sum(len(ends) for _, ends in shard.files.blocks(0, ids, documents))
        if ids or documents or not self._state.index:
            self._close(ids, documents)
        else:
            shard.close()
            self._shard = None
        return left_out


class Keeper(Protocol):
    """Decides about what was written."""

    def accept(self, document: int, ids: int) -> object:
        """Refuse a document with so many ids, the longest so far, if no row can have it."""

    def seal(self, closed: Mapping[str, Sequence[ClosedShard]]) -> object:
        """Make the files of the closed shards of each split what they stay."""

    def saved(self, position: Position) -> object:
        """Drop what the position needs no more, which is saved."""


class ShardWriter:
    """Writes what a route makes of blocks to the buckets that it names, from a position on; closes them at the end."""

    def __init__(
        self,
        journal: Journal,
        route: Route,
        buckets: Mapping[str, BucketWriter],
        keeper: Keeper,
        position: Position,
    ) -> None:
        self._journal, self._route, self._buckets, self._keeper = journal, route, buckets, keeper
        self.position = self._read = position  # what was read may wait in the route
        self._pause_s = float(os.environ.get("BPE_PIPELINE_CHECKPOINT_S", _PAUSE_S))
        self._saved_at, self._unsaved_bytes = time.monotonic(), 0

    def __enter__(self) -> "ShardWriter":
        try:
            self._keeper.seal(self.position.closed)
            states = self.position.shards.items()
            if not all(self._buckets[name].resume(state) for name, state in states):
                raise NotAsWritten
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        self._route.close()
        for bucket in self._buckets.values():
            bucket.close()

    def write(self, made: Iterable[SourceItem]) -> Position:
        """Write all blocks from the position on, to the end of the last source; returns the position behind it."""
        rest = SourceResumer(self._add, self._read.ids, self._read.ends)
        for taken in made:
            if isinstance(taken, ChunkStatistics):
                self._end_source(taken)
                rest = SourceResumer(self._add)
            else:
                rest.add(*taken)
            if self._unsaved_bytes > _MOST_UNSAVED_BYTES or time.monotonic() - self._saved_at > self._pause_s:
                self.save()
        if (begun := self._read.begun) > self._read.longest:  # it has no end
            self._keeper.accept(self._read.documents, begun)
            self._read = replace(self._read, longest=begun)
        self._pass_on(self._route.end())
        left_out = {name: bucket.end() for name, bucket in self._buckets.items()}
        self.position = replace(self._read, left_out=left_out, ended=True)
        self.save()
        return self.position

    def _add(self, block: IdBlock) -> None:
        (ids, ends), read = block, self._read
        longest, stop = self._accepted(block), read.ids + len(ids)
        self._pass_on(self._route.buckets(block, Start(read.source, read.ids, read.documents)))
        self._read = replace(
            read,
            ids=stop,
            ends=read.ends + len(ends),
            documents=read.documents + len(ends),
            begun=stop - ends[-1] if ends else read.begun + len(ids),
            longest=longest,
        )
        self._unsaved_bytes += ids.nbytes
        if not self._route.waits:
            self.position = self._read
        elif ends:
            self.position = replace(self._read, ids=ends[-1], begun=0)

    def _accepted(self, block: IdBlock) -> int:
        """Return the ids of the longest document so far; raises where a document of the block is refused."""
        (ids, ends), read = block, self._read
        longest, first, stop = read.longest, read.ids - read.begun, read.ids + len(ids)
        if stop - first <= longest:  # shorter documents are not looked at one by one
            return longest
        for document, (start, end) in enumerate(pairwise([first, *ends]), read.documents):
            if end - start > longest:
                longest = end - start
                self._keeper.accept(document, longest)
        if (begun := stop - (ends[-1] if ends else first)) > MOST_ROW:
            self._keeper.accept(read.documents + len(ends), begun)
        return longest

    def _pass_on(self, routed: Routed) -> None:
        require_ours(self._journal.path.parent)  # before anything is written where another process may work by now
        for name, (ids, ends), first in routed:
            self._buckets[name].add(ids, ends, first)

    def _end_source(self, statistics: ChunkStatistics) -> None:
        read = self._read
        whole = (self.position.source, self.position.ids) == (read.source, read.ids)
        self._read = replace(read, source=read.source + 1, ids=0, ends=0, statistics=read.statistics + statistics)
        if whole:  # otherwise a document that started in it waits for its end
            self.position = self._read

    def save(self) -> None:
        """Save the position, with all that is before it on disk, and then seal the shards that are closed."""
        started = time.monotonic()
        require_ours(self._journal.path.parent)
        for bucket in self._buckets.values():
            bucket.sync()
        system.flush(self._journal.path.parent)
        closed = {name: tuple(bucket.take_closed()) for name, bucket in self._buckets.items()}
        self.position = replace(
            self.position,
            shards={name: bucket.state for name, bucket in self._buckets.items()},
            closed={name: shards for name, shards in closed.items() if shards},
        )
        self._journal.save(self.position)
        self._keeper.seal(self.position.closed)
        self._keeper.saved(self.position)
        now = time.monotonic()
        self._saved_at, self._unsaved_bytes = now + (now - started) * _SAVING_SHARE, 0
