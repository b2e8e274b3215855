"""The one writer of shards in the order of the corpus: it takes the ids of chunks in turn, and journals how far it is.

Ids go to begun shards, which are finished by threads, as hidden files, when the journal says that they get no more ids.
A run that was stopped cuts the begun shards back to what the journal says, and goes on with the chunk that it names.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bpe_pipeline.base import system
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.shards.begun_shard import ClosedShard
from bpe_pipeline.shards.chunk_ids import IdsOfChunk, Made, Rest
from bpe_pipeline.shards.formats.shard_format import ShardFacts
from bpe_pipeline.shards.held_out import HeldOut
from bpe_pipeline.shards.journal import Journal
from bpe_pipeline.shards.ordered_shards import OrderedShards
from bpe_pipeline.shards.split_writer import OpenShard, SplitWriter

_PAUSE_S, _MOST_UNSAVED_BYTES = 1.0, 64 << 20  # between two entries of the journal
_MOST_WAITING = 4  # closed shards a thread, before the writer waits for one to be finished
Shard = tuple[str, int]  # its split and its index there


@dataclass(frozen=True)
class Position:
    """How far the writer is: which chunk is next, and how many ids and ends of documents of it are written.

    statistics: of the chunks before it; shards: the open one of each split; left_out: ids of each split that fill no
    row, at the end.
    """

    chunk: int = 0
    ids: int = 0
    ends: int = 0
    statistics: ChunkStatistics = field(default_factory=ChunkStatistics)
    shards: Mapping[str, OpenShard] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """What the journal says: the last position, closed shards, and the facts of those that are finished."""

    position: Position = field(default_factory=Position)
    closed: dict[Shard, ClosedShard] = field(default_factory=dict)
    finished: dict[Shard, ShardFacts] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]]) -> "Written":
        """Return what these entries say together; raises as `stored` does."""
        written = cls()
        for entry in entries:
            written.closed.update({(split, one["index"]): stored(ClosedShard, one) for split, one in entry["closed"]})
            facts = {(split, index): stored(ShardFacts, facts) for split, index, facts in entry["finished"]}
            written.finished.update(facts)
            written = replace(written, position=stored(Position, entry["position"]))
        return written


class OrderedWriter:
    """Writes shards: `resume`, then `write`, then `finish`, in a context that closes its files.

    held_out: from a chunk to the hash of its ids below which a document is validation's; None: there is no validation.
    early: whether shards are finished while others are written.
    """

    def __init__(
        self, shards: OrderedShards, journal: Journal, held_out: Callable[[int], int] | None, *, early: bool
    ) -> None:
        self._shards, self._journal, self._below, self._early = shards, journal, held_out, early
        self._finishing: deque[tuple[Shard, Future[ShardFacts]]] = deque()
        self._writers: dict[str, SplitWriter] = {}
        self._held_out: HeldOut | None = None
        self._pause_s = float(os.environ.get("BPE_PIPELINE_CHECKPOINT_S", _PAUSE_S))
        self._begin(Written())

    def __enter__(self) -> "OrderedWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        for writer in self._writers.values():
            writer.close()
        if self._held_out is not None:
            self._held_out.close()

    def _begin(self, written: Written) -> None:
        self.close()
        shards, self.position, self.facts = self._shards, written.position, written.finished
        self.unfinished = {shard: closed for shard, closed in written.closed.items() if shard not in written.finished}
        self._chunk, self._ids, self._ends = self.position.chunk, self.position.ids, self.position.ends
        self._statistics = self.position.statistics
        self._writers = {
            split: SplitWriter(partial(shards.begun, split), shards.rows, shards.most) for split in shards.splits
        }
        if self._below is not None:
            self._held_out = HeldOut(shards.layout.id_bytes, shards.directory, **self._writers)
        self._saved_at, self._unsaved_bytes, self._saved_chunks = time.monotonic(), 0, self.position.chunk

    def resume(self) -> bool:
        """Go on where the journal ends; returns False, and begins anew, if a begun shard is not as it was written."""
        try:
            self._begin(Written.of(self._journal.entries()))
            whole = all(self._writers[split].resume(shard) for split, shard in self.position.shards.items())
        except (KeyError, TypeError, ValueError):
            whole = False
        if whole and all(self._shards.begun(*shard).ids.exists() for shard in self.unfinished):
            return True
        self._journal.clear()
        self._begin(Written())
        return False

    @property
    def saved_chunks(self) -> int:
        """How many chunks the journal has: they are not needed any more."""
        return self._saved_chunks

    @property
    def documents(self) -> int:
        """How many documents the shards have that are not written any more."""
        unfinished = sum(closed.documents for closed in self.unfinished.values())
        finishing = sum(future.result().documents for _, future in self._finishing)
        return unfinished + finishing + sum(facts.documents for facts in self.facts.values())

    def write(self, made: Iterable[Made], threads: int) -> None:
        """Write all ids from the position on, to the end of the corpus; threads: that finish shards meanwhile."""
        with ThreadPoolExecutor(threads, thread_name_prefix="finish") as pool:
            rest = Rest(self._add, self._ids, self._ends)
            for taken in made:
                if isinstance(taken, ChunkStatistics):
                    self._end_chunk(taken)
                    rest = Rest(self._add)
                else:
                    rest.add(*taken)
                if self._unsaved_bytes > _MOST_UNSAVED_BYTES or time.monotonic() - self._saved_at > self._pause_s:
                    self._save()
                    self._finish_early(pool, _MOST_WAITING * threads)
            if self._held_out is not None and self._below is not None:
                self._held_out.end(self._below(self._chunk - 1))
            left_out = {
                split: one.end() or self.position.left_out.get(split, 0) for split, one in self._writers.items()
            }
            self.position = Position(self._chunk, 0, 0, self._statistics, left_out=left_out)
            self._save()
        if self._finishing:  # all are done now
            self._save()

    def _add(self, taken: IdsOfChunk) -> None:
        ids, ends = taken
        first = self._ids
        self._ids += len(ids)
        self._ends += len(ends)
        self._unsaved_bytes += ids.nbytes
        if self._held_out is None or self._below is None:
            self._writers["train"].add(ids, ends, first)
            self._move(self._ids)
        else:
            self._held_out.add(ids, ends, first, self._below(self._chunk))
            if ends:
                self._move(ends[-1])

    def _move(self, ids: int) -> None:
        """Put the position behind these ids of the chunk: what is before it is in shards."""
        self.position = Position(self._chunk, ids, self._ends, self._statistics)

    def _end_chunk(self, statistics: ChunkStatistics) -> None:
        whole = self.position.chunk == self._chunk and self.position.ids == self._ids
        self._statistics += statistics
        self._chunk, self._ids, self._ends = self._chunk + 1, 0, 0
        if whole:
            self._move(0)

    def _save(self) -> None:
        """Write an entry of the journal, when all that it speaks of is on disk."""
        for writer in self._writers.values():
            writer.sync()
        system.flush(self._shards.directory)
        closed = [(split, shard) for split, writer in self._writers.items() for shard in writer.take_closed()]
        finished = list(self._take_finished())
        state = replace(self.position, shards={split: writer.state for split, writer in self._writers.items()})
        entry = {
            "closed": [[split, plain(shard)] for split, shard in closed],
            "finished": [[*shard, plain(facts)] for shard, facts in finished],
            "position": plain(state),
        }
        self._journal.add(entry)
        self.unfinished |= {(split, shard.index): shard for split, shard in closed}
        for shard, facts in finished:
            self.facts[shard] = facts
            self._shards.begun(*shard).remove(but_ids=self._shards.in_place)
        self._saved_at, self._unsaved_bytes, self._saved_chunks = time.monotonic(), 0, self.position.chunk

    def _take_finished(self) -> Iterator[tuple[Shard, ShardFacts]]:
        while self._finishing and self._finishing[0][1].done():
            shard, future = self._finishing.popleft()
            yield shard, future.result()

    def _hand_out(self, pool: ThreadPoolExecutor, shard: Shard) -> None:
        self._finishing.append((shard, pool.submit(self._shards.finish, shard[0], self.unfinished.pop(shard))))

    def _finish_early(self, pool: ThreadPoolExecutor, most: int) -> None:
        """Hand out the closed shards that need no more memory than any; wait if more than `most` are not finished."""
        early = [shard for shard, closed in self.unfinished.items() if not self._shards.more_bytes(closed)]
        for shard in early if self._early else ():
            self._hand_out(pool, shard)
        unfinished = [future for _, future in self._finishing if not future.done()]
        wait(unfinished[: max(len(unfinished) - most, 0)])

    def finish(self, threads: int, advance: Callable[[int], object]) -> None:
        """Finish the shards that are not, with that many threads; `advance` receives the ids of each."""
        with ThreadPoolExecutor(threads, thread_name_prefix="finish") as pool:
            for shard in list(self.unfinished):
                self._hand_out(pool, shard)
            for _, future in list(self._finishing):
                advance(future.result().tokens)
            self._save()
