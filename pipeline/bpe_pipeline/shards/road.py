"""The road of ids: sources make blocks, the one writer passes them along a route into buckets.

    chunks --threads--> IdBlock --Route--> buckets

Threads of this process encode chunks. Workers encode them to chunk files, which are read in turn, for text that Python
touches, for nodes of a cluster, for `--part` and for object stores. To shuffle documents the road is taken twice: they
are dealt out to buckets by their sort keys, and each bucket, sorted, is a source in its turn.
"""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from bpe_pipeline.run.runner import Runner
from bpe_pipeline.shards.blocks import SourceItem, blocks_in_turn
from bpe_pipeline.shards.bucket import BucketFiles, Extent
from bpe_pipeline.shards.encoding_tasks import ENCODING_STAGE, ChunkFiles
from bpe_pipeline.shards.finish import ShardPlace
from bpe_pipeline.shards.manifest import JOURNAL, Encoding, holds_out
from bpe_pipeline.shards.route import HeldOut, InOrder, LastShare, Route, Shuffled, bucket_name, hash_held_out
from bpe_pipeline.shards.sort import LEAST_SORT_BYTES, SortTask, bits_of, memory_of, sort_bucket
from bpe_pipeline.shards.split_writer import SplitWriter
from bpe_pipeline.shards.writer import (
    DEALING,
    WRITING,
    BucketWriter,
    Journal,
    NotAsWritten,
    Position,
    ShardWriter,
    Sinks,
)

ORDERING_STAGE = "ordering documents"


@dataclass(frozen=True)
class Road:
    """How the ids of a corpus come into the buckets of its shards, in one pass or, to shuffle documents, in two."""

    runner: Runner
    encoding: Encoding
    source: ChunkFiles
    place: ShardPlace

    @property
    def _journal(self) -> Journal:
        return Journal(self.place.directory / JOURNAL, self.place.of)

    def write(self) -> Position:
        """Write all ids into the buckets of shards; returns the position at the end."""
        try:
            return self._resume(self._journal.load())
        except NotAsWritten:
            self.runner.warn(f"what {self._journal.path} speaks of is not as it was written: encoding from the start")
            return self._resume(None)

    def _resume(self, position: Position | None) -> Position:
        if position is None:
            self.encoding.remove_begun(self.place.directory)
            position = Position(DEALING if self.encoding.options["shuffle"] else WRITING)
        return self._write_splits(self._dealt(position) if position.pass_ == DEALING else position)

    def _dealt(self, position: Position) -> Position:
        """Deal all documents out; returns the position where the buckets are to be sorted."""
        plan, id_bytes = self.encoding.plan, self.place.layout.id_bytes
        route = Shuffled(self.encoding.options["seed"], id_bytes, self._bits, plan.held_out)
        buckets = {bucket_name(number): BucketWriter(self._bucket(number)) for number in range(self._bucket_count)}
        with ShardWriter(self._journal, route, Sinks(buckets, {}, self.place.seal), position) as writer:
            if not position.ended:
                with closing(self._chunks(position.source)) as made:
                    position = writer.write(made)
        return Position(WRITING, statistics=position.statistics, dealt=position.dealt)

    def _write_splits(self, position: Position) -> Position:
        """Write all ids into the open shard of each split."""
        place, options = self.place, self.encoding.options
        self._require_files(position)
        splits = {
            split: SplitWriter(partial(place.bucket, split), place.rows, place.most, place.most_row)
            for split in place.splits
        }
        with ShardWriter(self._journal, self._route(), Sinks({}, splits, place.seal), position) as writer:
            if position.ended:
                self.runner.skip(ENCODING_STAGE)
                return position
            sources = self._sorted(writer, position.dealt) if options["shuffle"] else self._chunks(position.source)
            with closing(sources) as made:
                return writer.write(made)

    def _route(self) -> Route:
        """Return the route to the splits."""
        place, options, held_out = self.place, self.encoding.options, self.encoding.plan.held_out
        if held_out:
            return LastShare(1 << self._bits if options["shuffle"] else held_out)
        if holds_out(options):
            return HeldOut(hash_held_out(options), place.layout.id_bytes, place.directory)
        return InOrder()

    @property
    def _sets(self) -> int:
        return 2 if self.encoding.plan.held_out else 1

    @property
    def _bits(self) -> int:
        return bits_of(self.encoding.plan.bytes, self._sets)

    @property
    def _bucket_count(self) -> int:
        return self._sets << self._bits

    def _require_files(self, position: Position) -> None:
        """Raise `NotAsWritten` unless closed shards, and buckets that are to be sorted, are as the journal says."""
        for number in range(position.source, 0 if position.ended else len(self._buckets(position.dealt))):
            files, extent = self._bucket(number), self._buckets(position.dealt)[number]
            if extent.ids and (not files.ids.exists() or files.size() != (extent.ids, extent.numbers)):
                raise NotAsWritten
        for split, shard in position.shards.items():
            for index in range(shard.index):
                paths = self.place.facts_file(split, index), self.place.bucket(split, index).ids
                if not any(path.exists() for path in paths):
                    raise NotAsWritten

    def _chunks(self, first: int) -> Generator[SourceItem, None, None]:
        """Yield the blocks of each chunk from the first on."""
        if first == len(self.encoding.plan.chunks):
            self.runner.skip(ENCODING_STAGE)
        else:
            yield from self.source.blocks(first)

    def _bucket(self, number: int) -> BucketFiles:
        return BucketFiles(self.place.directory, bucket_name(number), self.place.layout.id_bytes)

    def _buckets(self, dealt: Mapping[str, Extent]) -> list[Extent]:
        """Return the extents of all buckets, in order."""
        return [dealt.get(bucket_name(number), Extent()) for number in range(self._bucket_count)]

    def _sorted(self, writer: ShardWriter, dealt: Mapping[str, Extent]) -> Generator[SourceItem, None, None]:
        """Yield the blocks of each bucket; one that the journal needs no more is removed."""
        first, buckets, id_bytes = writer.saved_source, self._buckets(dealt), self.place.layout.id_bytes
        sizes = [memory_of(extent, id_bytes) for extent in buckets]
        least, wanted = LEAST_SORT_BYTES, max(LEAST_SORT_BYTES, *sizes)
        grant = self.runner.broker.reserve(least, wanted, ORDERING_STAGE, asked=min(self.runner.threads, len(buckets)))
        total, removed = sum(extent.ids for extent in buckets), first

        def task_of_bucket(number: int) -> SortTask:
            return SortTask(self._bucket(number), buckets[number], self._bits, grant.bytes)

        done = sum(extent.ids for extent in buckets[:first])
        with self.runner.reporting(ORDERING_STAGE, total, "tokens", done) as advance:
            sources = range(first, len(buckets))
            for made in blocks_in_turn(sort_bucket, task_of_bucket, sources, grant.count, 0, advance):
                yield made
                for number in range(removed, writer.saved_source):
                    self._bucket(number).remove()
                removed = writer.saved_source
