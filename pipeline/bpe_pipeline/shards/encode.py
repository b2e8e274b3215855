"""A corpus becomes shards: the road fills buckets with ids, each of which is finished, and all get their names at once.

Where shards start and end depends on the ids and the ends of documents alone: not on chunks, workers, memory or kills.
"""

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.base.units import format_count
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.shards import manifest
from bpe_pipeline.shards.encoded_corpus import EncodedCorpus, FileFacts
from bpe_pipeline.shards.encoding_tasks import ChunkFiles
from bpe_pipeline.shards.finish import CheckTask, FinishTask, ShardPlace, finish_shard, is_intact
from bpe_pipeline.shards.formats import shard_format
from bpe_pipeline.shards.formats.shard_format import Layout, ShardFacts
from bpe_pipeline.shards.manifest import Encoding, holds_out
from bpe_pipeline.shards.packing import DocumentRows, PackedRows, ShardRows, layout_of
from bpe_pipeline.shards.road import Road
from bpe_pipeline.shards.writer import Position
from bpe_pipeline.storage import Location, each, unreadable
from bpe_pipeline.storage.atomic import make_directory, move, write_whole
from bpe_pipeline.storage.scratch import scratch_directory
from bpe_pipeline.tokenizer.model import Model

WRITING_STAGE, CHECKING_STAGE = "writing shards", "checking shards"
_WRITING_BYTES = 24 << 20  # of a worker that writes or checks a shard
_Facts = Mapping[str, list[ShardFacts]]


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
            ["train", *(["validation"] if holds_out(encoding.options) else [])],
            directory,
            encoding.journal_of(),
        )
        written = Road(runner, encoding, source, place).write()
        accept(written.statistics, written.documents)
        by_split = _finished(runner, encoding, place, written)
        return _published(encoding, place, by_split, written)


@contextmanager
def _working_directory(encoding: Encoding) -> Iterator[Path]:
    """Yield the local directory of the journal and the buckets: that of the shards, or one for shards in a store."""
    where = encoding.directory.location
    if isinstance(where, Path):
        yield where
    else:
        with scratch_directory() as scratch:
            yield scratch


def _finished(runner: Runner, encoding: Encoding, place: ShardPlace, written: Position) -> _Facts:
    """Finish the shards that are not; returns the facts of all shards of each split, in order."""
    tasks = [FinishTask(place, split, index) for split, shard in written.shards.items() for index in range(shard.index)]
    missing = [task for task in tasks if place.facts(task.split, task.index) is None]
    if missing:
        seen = not runner.nodes or isinstance(encoding.directory.location, Path)  # by all workers
        _finish(runner, place, missing, seen=seen)
    by_split: dict[str, list[ShardFacts]] = {split: [] for split in place.splits}
    for task in tasks:
        if facts := place.facts(task.split, task.index):
            by_split[task.split].append(facts)
    return by_split


def _finish(runner: Runner, place: ShardPlace, tasks: Sequence[FinishTask], *, seen: bool) -> None:
    """Finish shards: by workers if these see their buckets, otherwise one by one."""
    rows = [place.long_row(task.split, task.index) for task in tasks]
    more, longest = max((row.memory_bytes(place.format, place.layout), row.tokens) for row in rows)
    what = f"writing {place.format.extension} with a row of {format_count(longest, 'tokens')}"
    weights = [place.bucket(task.split, task.index).size()[0] for task in tasks]
    grant = writers(runner, len(tasks), more, what)
    if not seen:
        with runner.reporting(WRITING_STAGE, sum(weights), "tokens") as advance:
            for task in tasks:
                advance(finish_shard(task).tokens)
        return
    runner.run(Stage(WRITING_STAGE, "tokens", finish_shard, tasks, weights, grant=grant))


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


def writers(runner: Runner, tasks: int, more_bytes: int = 0, what: str = "writing shards") -> Grant:
    """Return the workers for that many files. more_bytes: memory that the named work takes in addition."""
    return runner.reserve(tasks, _WRITING_BYTES + more_bytes, _WRITING_BYTES + more_bytes, what)


def named_shards(
    encoding: Encoding, layout: Layout, counts: Mapping[str, int]
) -> dict[str, list[tuple[str, str | None]]]:
    """Return the names of the shards, and their second files, of each split, which has so many.

    The manifest has them from here on, and their directories are there; files of others are not replaced.
    """
    home, format_ = encoding.directory, shard_format(encoding.options["shard_format"])
    directories = encoding.directories([*counts])
    named = {
        split: [format_.names(encoding.stem(split, directories[split], index, count), layout) for index in range(count)]
        for split, count in counts.items()
    }
    names = [name for of_split in named.values() for both in of_split for name in both if name]
    names += format_.index(layout, dict.fromkeys(directories.values(), ()))
    listed = (True if name in encoding.shards else None for name in names)
    home.refuse_replaced([home / name for name in names], listed)
    manifest.save(replace(encoding, shards=tuple(dict.fromkeys((*encoding.shards, *names)))))
    for directory in filter(None, directories.values()):
        make_directory(home / directory)
    return named


def complete(encoding: Encoding, layout: Layout, shards: Mapping[str, Sequence[ShardFacts]]) -> list[FileFacts]:
    """Write what the format adds to the shards of each split, when their names are on disk; returns these files."""
    home, directories = encoding.directory, encoding.directories([*shards])
    for directory in directories.values():  # not after each of many small shards
        if isinstance(where := home / directory if directory else home.location, Path):
            system.flush(where)
    encoding.directory.require_lock()
    by_directory = {directories[split]: of_split for split, of_split in shards.items()}
    index = shard_format(encoding.options["shard_format"]).index(layout, by_directory)
    return [_index_file(home, *file) for file in index.items()]


def rows_of(options: Mapping[str, Any], model: Model) -> DocumentRows | PackedRows:
    """Return what rows the documents of a corpus become."""
    format_, special = shard_format(options["shard_format"]), model.vocabulary.special_tokens
    layout = layout_of(options, format_)
    if layout.documents:
        return DocumentRows(layout, whole=format_.ends_with_row(layout))
    tokens = (model.pad_token, model.eos_token, model.separator)
    pad = next((special[token] for token in tokens if token in special), 0)
    return PackedRows(layout, options["pack"], options["sequence_length"], pad)


def _index_file(home: Directory, name: str, text: str) -> FileFacts:
    """Write a file that a format adds to the directory."""
    write_whole(home / name, text)
    data = text.encode()
    return FileFacts(name, len(data), f"{zlib.crc32(data):08x}")


def damaged_file(runner: Runner, encoding: Encoding, corpus: EncodedCorpus) -> str | None:
    """Read all files of a finished directory; return the name of the first that is missing or not what was written."""
    tasks = [CheckTask(encoding.directory / name, size, crc32) for name, size, crc32 in corpus.checksums()]
    sizes = each(_size, [task.path for task in tasks])
    for task, size in zip(tasks, sizes, strict=True):
        if size != task.bytes:
            return task.path.name
    workers, weights = writers(runner, len(tasks)), [task.bytes for task in tasks]
    intact = runner.run(Stage(CHECKING_STAGE, "bytes", is_intact, tasks, weights, grant=workers))
    return next((task.path.name for task, is_whole in zip(tasks, intact, strict=True) if not is_whole), None)


def _size(where: Location) -> int | None:
    try:
        return where.stat().st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(where, error) from None
