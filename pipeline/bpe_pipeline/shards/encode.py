"""The road of ids: a corpus becomes shards.

    chunks --threads--> IdBlock --Route--> buckets --finish--> shards

Sources make blocks, the one writer passes them along a route into buckets, each of which is finished, and all shards
get their names at once. To shuffle documents the road is taken twice: they are dealt out to buckets by their sort keys,
and each bucket, sorted, is a source in its turn.

Where shards start and end depends on the ids and the ends of documents alone: not on chunks, workers, memory or kills.
"""

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.base.units import format_count
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.shards import manifest
from bpe_pipeline.shards.blocks import SourceItem, blocks_in_turn
from bpe_pipeline.shards.bucket import BucketFiles, ClosedShard, Extent, LongRow, ShardRows
from bpe_pipeline.shards.encoded_corpus import EncodedCorpus, FileFacts, checksum
from bpe_pipeline.shards.encoding_tasks import ENCODING_STAGE, ChunkFiles
from bpe_pipeline.shards.finish import (
    CheckTask,
    DocumentRows,
    FinishTask,
    PackedRows,
    ShardPlace,
    finish_shard,
    is_intact,
    layout_of,
)
from bpe_pipeline.shards.formats import Layout, ShardFacts, shard_format
from bpe_pipeline.shards.manifest import Encoding, directory_of, holds_out, splits_of
from bpe_pipeline.shards.route import (
    LEAST_SORT_BYTES,
    HeldOut,
    LastShare,
    Route,
    Shuffled,
    SortTask,
    bits_of,
    bucket_name,
    hash_held_out,
    memory_of,
    sort_bucket,
)
from bpe_pipeline.shards.writer import JOURNAL, BucketWriter, Journal, NotAsWritten, Position, ShardWriter
from bpe_pipeline.storage import each
from bpe_pipeline.storage.atomic import make_directory, move, write_whole
from bpe_pipeline.storage.scratch import scratch_directory
from bpe_pipeline.tokenizer.model import Model

ORDERING_STAGE, WRITING_STAGE, CHECKING_STAGE = "ordering documents", "writing shards", "checking shards"
_KEY_DIGITS = 16  # of what an encoding depends on, in the names of files that are begun
_WRITING_BYTES = 24 << 20  # of a worker that writes or checks a shard
_Facts = Mapping[str, Sequence[ShardFacts]]


def write_shards(
    runner: Runner,
    encoding: Encoding,
    source: ChunkFiles,
    rows: ShardRows,
    accept: Callable[[ChunkStatistics, int], object],
) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Encode what is missing and finish the shards; returns all of them, and the format's own files.

    accept: takes what was read, and the number of documents, before the shards are finished.
    """
    with _working_directory(encoding) as directory:
        place = ShardPlace(
            shard_format(encoding.options["shard_format"]),
            rows,
            sys.maxsize if encoding.single else encoding.options["shard_size"],
            splits_of(encoding.options),
            directory,
            encoding.journal_of()[:_KEY_DIGITS],
        )
        memory = runner.broker.everything(runner.nodes)
        road = Road(runner, encoding, source, place, Journal(directory / JOURNAL, encoding.journal_of()), memory)
        written = road.write()
        accept(written.statistics, written.documents)
        return _published(encoding, place, road.finish(written), written)


@contextmanager
def _working_directory(encoding: Encoding) -> Iterator[Path]:
    """Yield the local directory of the journal and the buckets: that of the shards, or one for shards in a store."""
    where = encoding.directory.location
    if isinstance(where, Path):
        yield where
    else:
        with scratch_directory() as scratch:
            yield scratch


@dataclass(frozen=True)
class Road:
    """How the ids of a corpus come into the buckets of its shards, in one pass or, to shuffle documents, in two.

    memory: for a worker that writes a shard; finished: the facts of shards, by split and index.
    """

    runner: Runner
    encoding: Encoding
    source: ChunkFiles
    place: ShardPlace
    journal: Journal
    memory: Grant
    finished: dict[tuple[str, int], ShardFacts] = field(default_factory=dict)

    def write(self) -> Position:
        """Write all ids into the buckets of shards; returns the position at the end."""
        try:
            return self._resume(self.journal.load())
        except NotAsWritten:
            self.runner.warn(f"what {self.journal.path} speaks of is not as it was written: encoding from the start")
            return self._resume(None)

    def _resume(self, position: Position | None) -> Position:
        if position is None:
            self.encoding.remove_begun(self.place.directory)
            self.finished.clear()
            position = Position()
        self.finished.update(self.journal.finished())
        if self.encoding.options["shuffle"] and position.dealt is None:
            position = self._dealt(position)
        return self._write_splits(position)

    def _dealt(self, position: Position) -> Position:
        """Deal all documents out; returns the position where the buckets are to be sorted."""
        held_out, id_bytes = self.encoding.plan.held_out, self.place.layout.id_bytes
        route = Shuffled(self.encoding.options["seed"], id_bytes, self._bits, held_out)
        buckets = [
            BucketWriter(partial(self._bucket, number)) for number in range((2 if held_out else 1) << self._bits)
        ]
        named = {bucket_name(number): bucket for number, bucket in enumerate(buckets)}
        at_end = self._write(route, named, position, self._chunks(position.source))
        dealt = tuple(at_end.shards[name].extent for name in named)
        return Position(statistics=at_end.statistics, dealt=dealt, longest=at_end.longest)

    def _write_splits(self, position: Position) -> Position:
        """Write all ids into the open shard of each split."""
        place, dealt = self.place, position.dealt
        self._require_files(position)
        if position.ended:
            self.runner.skip(ENCODING_STAGE)
        splits = {split: BucketWriter(partial(place.bucket, split), place.rows, place.most) for split in place.splits}
        made = self._chunks(position.source) if dealt is None else self._sorted(position.source, dealt)
        return self._write(self._route(), splits, position, made)

    def _write(
        self,
        route: Route,
        buckets: Mapping[str, BucketWriter],
        position: Position,
        made: Generator[SourceItem, None, None],
    ) -> Position:
        """Write all that follows a position along a route; returns the position at the end."""
        with ShardWriter(self.journal, route, buckets, self, position) as writer, closing(made):
            return position if position.ended else writer.write(made)

    def _route(self) -> Route:
        """Return the route to the splits."""
        place, options, held_out = self.place, self.encoding.options, self.encoding.plan.held_out
        if held_out:
            return LastShare(1 << self._bits if options["shuffle"] else held_out)
        if holds_out(options):
            return HeldOut(hash_held_out(options), place.layout.id_bytes, place.directory)
        return Route()

    @property
    def _bits(self) -> int:
        return bits_of(self.encoding.plan.bytes, 2 if self.encoding.plan.held_out else 1)

    def _bucket(self, number: int, _shard: int = 0) -> BucketFiles:
        return self.place.begun(bucket_name(number))

    def _require_files(self, position: Position) -> None:
        """Raise `NotAsWritten` unless closed shards, and buckets that are to be sorted, are as the journal says."""
        to_sort = () if position.ended else (position.dealt or ())[position.source :]
        for number, extent in enumerate(to_sort, position.source):
            files = self._bucket(number)
            if extent.ids and (not files.ids.exists() or files.size() != (extent.ids, extent.numbers)):
                raise NotAsWritten
        for split, index in self._closed(position):
            unsealed = {shard.index for shard in position.closed.get(split, ())}
            is_there = self.place.bucket(split, index).ids.exists() and (index in unsealed or not self.place.in_place)
            if (split, index) not in self.finished and not is_there:
                raise NotAsWritten

    def _closed(self, position: Position) -> list[tuple[str, int]]:
        """Return split and index of all shards that get no more ids."""
        return [(split, index) for split, shard in position.shards.items() for index in range(shard.index)]

    def _chunks(self, first: int) -> Generator[SourceItem, None, None]:
        """Yield the blocks of each chunk from the first on."""
        if first == len(self.encoding.plan.chunks):
            self.runner.skip(ENCODING_STAGE)
        else:
            yield from self.source.blocks(first)

    def _sorted(self, first: int, buckets: Sequence[Extent]) -> Generator[SourceItem, None, None]:
        """Yield the blocks of each bucket from the first on."""
        id_bytes = self.place.layout.id_bytes
        wanted = max(LEAST_SORT_BYTES, *(memory_of(extent, id_bytes) for extent in buckets))
        threads = min(self.runner.threads, len(buckets))
        grant = self.runner.broker.reserve(LEAST_SORT_BYTES, wanted, ORDERING_STAGE, asked=threads)

        def task_of_bucket(number: int) -> SortTask:
            return SortTask(self._bucket(number), buckets[number], self._bits, grant.bytes)

        total, done = (sum(extent.ids for extent in some) for some in (buckets, buckets[:first]))
        with self.runner.reporting(ORDERING_STAGE, total, "tokens", done) as advance:
            sources = range(first, len(buckets))
            yield from blocks_in_turn(sort_bucket, task_of_bucket, sources, grant.count, 0, advance)

    def saved(self, position: Position) -> None:
        """Remove the buckets that were sorted and are needed no more."""
        for number in range(position.source if position.dealt else 0):
            self._bucket(number).remove()

    def accept(self, document: int, ids: int) -> None:
        """Refuse a document with so many ids, the longest so far, if it is too long for a row or for the memory."""
        if (row := self.place.row_of(document, ids)) is not None:
            self._require_memory(row, f"document {document + 1:,} as ")

    def seal(self, closed: Mapping[str, Sequence[ClosedShard]]) -> None:
        """Make the files of closed shards what they stay; refuse packed rows that take too much memory."""
        place, sealed = self.place, list[tuple[str, int, ShardFacts]]()
        for split, shard in ((split, shard) for split, shards in closed.items() for shard in shards):
            if (split, shard.index) in self.finished:
                continue
            if not place.in_place:
                self._require_memory(place.rows.longest(shard.ids, shard.documents, 0))
            if (facts := place.seal(split, shard)) is not None:
                sealed.append((split, shard.index, facts))
        if sealed:
            system.flush(place.directory)  # the names of second files are on disk before it is noted that they are
        for facts_of_shard in sealed:
            self._note(*facts_of_shard)

    def _require_memory(self, row: LongRow, what: str = "") -> None:
        self.memory.require(*self._takes(row, what))

    def _takes(self, row: LongRow, what: str = "") -> tuple[int, str]:
        """Return the memory that a worker takes to write shards with such a row, and that in words."""
        format_, tokens = self.place.format, format_count(row.tokens, "tokens")
        more = row.memory_bytes(format_, self.place.layout)
        return _WRITING_BYTES + more, f"writing {what}{format_.extension} with a row of {tokens}"

    def _note(self, split: str, index: int, facts: ShardFacts) -> None:
        """Note that a shard is finished."""
        self.journal.add(split, index, facts)
        self.finished[split, index] = facts

    def finish(self, written: Position) -> _Facts:
        """Finish the shards that are not; returns the facts of all shards of each split, in order."""
        missing = [FinishTask(self.place, *key) for key in self._closed(written) if key not in self.finished]
        for number, facts in self._finished(missing, written.longest) if missing else ():
            task = missing[number]
            self._note(task.split, task.index, facts)
            self.place.bucket(task.split, task.index).remove()
        counts = ((split, written.shards[split].index) for split in self.place.splits)
        return {split: [self.finished[split, index] for index in range(count)] for split, count in counts}

    def _finished(self, tasks: Sequence[FinishTask], longest: int) -> Iterator[tuple[int, ShardFacts]]:
        """Yield the facts of shards by the numbers of their tasks: workers finish them if they see their buckets.

        longest: ids of the longest document.
        """
        runner, place = self.runner, self.place
        sizes = [place.bucket(task.split, task.index).size() for task in tasks]
        memory_bytes, what = max(self._takes(place.rows.longest(*size, longest)) for size in sizes)
        grant = runner.reserve(len(tasks), memory_bytes, memory_bytes, what)
        weights = [ids for ids, _ in sizes]
        if not runner.nodes or isinstance(self.encoding.directory.location, Path):
            yield from runner.each(Stage(WRITING_STAGE, "tokens", finish_shard, tasks, weights, grant=grant))
            return
        with runner.reporting(WRITING_STAGE, sum(weights), "tokens") as advance:
            for number, task in enumerate(tasks):
                yield number, finish_shard(task)
                advance(weights[number])


def _published(
    encoding: Encoding, place: ShardPlace, by_split: _Facts, written: Position
) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Give all finished shards their names; returns their facts, and the files of the format."""
    shards = {split: list(by_split[split]) for split in (place.splits if written.documents else ["train"])}
    named = named_shards(encoding, place.layout, {split: len(of_split) for split, of_split in shards.items()})
    moves = []
    for split, of_split in shards.items():
        for index, names in enumerate(named[split]):
            moves.append((place.finished(split, index), names))
            of_split[index] = replace(of_split[index], name=names[0], offsets=names[1])
        if dropped := written.left_out.get(split):
            of_split[-1] = replace(of_split[-1], dropped=dropped)
    for _ in each(lambda pair: _move(*pair, encoding), moves, [encoding.directory.location]):
        pass
    return [facts for of_split in shards.values() for facts in of_split], complete(encoding, place.layout, shards)


def _move(hidden: tuple[Path, Path | None], names: tuple[str, str | None], encoding: Encoding) -> None:
    """Give a finished shard its name, and its second file before it, unless an earlier run did."""
    for path, name in zip(reversed(hidden), reversed(names), strict=True):
        if path is None or name is None:
            continue
        final = encoding.directory / name
        with os_error_as(RunDirectoryError, f"{final} cannot be written", "start again with --overwrite"):
            if path.exists() or not final.exists():
                move(path, final)


def named_shards(
    encoding: Encoding, layout: Layout, counts: Mapping[str, int]
) -> dict[str, list[tuple[str, str | None]]]:
    """Return the names of the shards, and their second files, of each split, which has so many.

    The manifest has them from here on, and their directories are there; files of others are not replaced.
    """
    home, format_ = encoding.directory, shard_format(encoding.options["shard_format"])
    directories = [directory_of(encoding.options, split) for split in counts]
    named = {split: encoding.names(layout, split, count) for split, count in counts.items()}
    names = [name for of_split in named.values() for both in of_split for name in both if name]
    names += format_.index(layout, dict.fromkeys(directories, ()))
    home.refuse_replaced(home / name for name in names if name not in encoding.shards)
    manifest.save(replace(encoding, shards=tuple(dict.fromkeys((*encoding.shards, *names)))))
    for directory in filter(None, directories):
        make_directory(home / directory)
    return named


def complete(encoding: Encoding, layout: Layout, shards: Mapping[str, Sequence[ShardFacts]]) -> list[FileFacts]:
    """Write what the format adds to the shards of each split, when their names are on disk; returns these files."""
    home, by_directory = encoding.directory, {directory_of(encoding.options, split): of for split, of in shards.items()}
    for directory in by_directory:  # not after each of many small shards
        if isinstance(where := home / directory if directory else home.location, Path):
            system.flush(where)
    encoding.directory.require_lock()
    index = shard_format(encoding.options["shard_format"]).index(layout, by_directory)
    for name, text in index.items():
        write_whole(home / name, text)
    return [FileFacts(name, *checksum(home / name)) for name in index]


def rows_of(options: Mapping[str, Any], model: Model) -> DocumentRows | PackedRows:
    """Return what rows the documents of a corpus become."""
    format_, special = shard_format(options["shard_format"]), model.vocabulary.special_tokens
    layout = layout_of(options, format_)
    if layout.documents:
        return DocumentRows(layout, whole=format_.ends_with_row(layout))
    tokens = (model.pad_token, model.eos_token, model.separator)
    pad = next((special[token] for token in tokens if token in special), 0)
    return PackedRows(layout, options["pack"], options["sequence_length"], pad)


def damaged_file(runner: Runner, encoding: Encoding, corpus: EncodedCorpus) -> str | None:
    """Read all files of a finished directory; return the name of the first that is missing or not what was written."""
    tasks = [CheckTask(encoding.directory / name, size, crc32) for name, size, crc32 in corpus.checksums()]
    workers = runner.reserve(len(tasks), _WRITING_BYTES, _WRITING_BYTES, CHECKING_STAGE)
    weights = [task.bytes for task in tasks]
    intact = runner.run(Stage(CHECKING_STAGE, "bytes", is_intact, tasks, weights, grant=workers))
    return next((task.path.name for task, is_whole in zip(tasks, intact, strict=True) if not is_whole), None)
