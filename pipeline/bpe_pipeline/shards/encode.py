"""The two stages of encoding a corpus in another order, run by workers: chunks become parts, parts become shards.

Each writes what the directory does not hold yet, and returns what is complete. Where shards start and end depends on
the ids and the ends of documents alone, not on the parts: chunks of any size make the same shards.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bpe_pipeline.base import system
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.base.units import format_count
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.directory import Directory
from bpe_pipeline.run.options import EncodeOptions
from bpe_pipeline.run.patterns import slowness
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.shards import manifest
from bpe_pipeline.shards.borders import Whole, longest_document, plan_shards, without_rest
from bpe_pipeline.shards.encode_worker import EncodeTask, encode_chunk, packed
from bpe_pipeline.shards.encoded_corpus import EncodedCorpus, FileFacts
from bpe_pipeline.shards.encoding_tasks import EncodingWorkers, encoding_workers, task_of
from bpe_pipeline.shards.formats import shard_format
from bpe_pipeline.shards.formats.shard_format import Layout, ShardFacts
from bpe_pipeline.shards.ids_file import EncodedChunk, part_of
from bpe_pipeline.shards.ids_in_order import open_source
from bpe_pipeline.shards.manifest import Encoding, is_dealt
from bpe_pipeline.shards.order import Split, put_in_order, writers
from bpe_pipeline.shards.packing import DocumentRows, LongRow, PackedRows, layout_of
from bpe_pipeline.shards.write_worker import CheckTask, ShardFile, ShardTask, is_intact, write_shard
from bpe_pipeline.storage import Location, each, unreadable
from bpe_pipeline.storage.atomic import make_directory, write_whole
from bpe_pipeline.tokenizer.model import Model

ENCODING_STAGE, WRITING_STAGE, CHECKING_STAGE = "encoding", "writing shards", "checking shards"
NOTHING = EncodedChunk(0, ChunkStatistics(), documents=0, rest=0)


@dataclass(frozen=True)
class Writing:
    """Shards to write. do: writes one; tasks: of each split by its name, each but for its file; unit: of `weight`.

    longest: the longest row.
    """

    do: Callable[[Any], ShardFacts]
    tasks: Mapping[str, Sequence[Callable[..., Any]]]
    unit: str
    weight: Callable[[Any], int]
    longest: LongRow


def write_by_parts(
    runner: Runner,
    encoding: Encoding,
    model: Model,
    options: EncodeOptions,
    accept: Callable[[ChunkStatistics, int], object],
) -> tuple[list[ShardFacts], list[FileFacts], Layout]:
    """Encode what is missing and write the shards; returns all of them, and the format's own files.

    accept: takes what was read, and the number of documents, before the shards are written.
    """
    parts = encode_chunks(runner, encoding, model, options)
    accept(sum((part.statistics for part in parts), ChunkStatistics()), sum(part.documents for part in parts))
    splits = put_in_order(runner, encoding, parts)
    return write_shards(runner, encoding, model, splits, parts)


def encode_chunks(runner: Runner, encoding: Encoding, model: Model, options: EncodeOptions) -> list[EncodedChunk]:
    """Encode the chunks without parts; returns all parts, or those of the runner's share, in order."""
    runner.warn(slowness(model.pattern))
    workers = encoding_workers(runner.broker, runner.workers, model, len(encoding.plan.chunks), runner.nodes)
    return runner.run(corpus_stage(runner, encoding, model, options, workers))


def corpus_stage(
    runner: Runner, encoding: Encoding, model: Model, options: EncodeOptions, workers: EncodingWorkers
) -> Stage[EncodeTask, EncodedChunk]:
    """Return the stage of workers that encode the chunks of a corpus to parts."""
    task = task_of(
        EncodeTask,
        model,
        options,
        workers,
        model=runner.executor.broadcast(packed(model)),
        tokenizer=encoding.options["tokenizer"],
        cache_bytes=workers.cache_bytes,
        held_out_from=encoding.plan.held_out_from,
    )
    return encoding_stage(encoding, encode_chunk, task, workers.grant)


def encoding_stage(
    encoding: Encoding, encode: Callable[[Any], EncodedChunk], task_of_chunk: Callable[..., Any], workers: Grant
) -> Stage[Any, EncodedChunk]:
    """Return the stage that makes the parts that are missing, each by a task of what a chunk has of its own.

    The result is `NOTHING` for a chunk that is in shards already.
    """
    encoding.directory.require_lock()
    make_directory(encoding.directory / "parts")
    parts = encoding.parts()
    written = {part.path for part in parts[: encoding.written_chunks()]}

    def stored(tasks: Sequence[Any]) -> list[EncodedChunk | None]:
        chunks = [NOTHING if task.output in written else part_of(task.output, task.fingerprint) for task in tasks]
        encoding.directory.refuse_replaced([task.output for task in tasks], chunks)
        return chunks

    return Stage(
        ENCODING_STAGE,
        "bytes",
        encode,
        encoding.plan.tasks(task_of_chunk, parts),
        weights=[chunk.bytes for chunk in encoding.plan.chunks],
        stored=stored,
        kept="encoded",
        grant=workers,
    )


def write_shards(
    runner: Runner, encoding: Encoding, model: Model, splits: Sequence[Split], parts: Sequence[EncodedChunk]
) -> tuple[list[ShardFacts], list[FileFacts], Layout]:
    """Write the shards that are missing, and the files of their format; returns all of them, in order."""
    rows = rows_of(encoding.options, model)
    tasks = {split.name: list(_shard_tasks(encoding, split, rows)) for split in splits}
    tokens = max((task.keywords["tokens"] for of_split in tasks.values() for task in of_split), default=0)
    longest = rows.longest(tokens, sum(part.documents for part in parts), longest_document(parts))
    writing = Writing(write_shard, tasks, "tokens", lambda task: task.tokens, longest)
    return *write_missing(runner, encoding, rows.layout, writing), rows.layout


def write_missing(
    runner: Runner, encoding: Encoding, layout: Layout, writing: Writing
) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Write the shards that are missing, each by its task, and the files of their format; returns all, in order."""
    home, format_name = encoding.home, encoding.options["shard_format"]
    format_ = shard_format(format_name)
    named = named_shards(encoding, layout, {split: len(tasks) for split, tasks in writing.tasks.items()})
    tasks = [
        task(file=ShardFile(home.location, *names, format_, layout))
        for split, of_split in writing.tasks.items()
        for task, names in zip(of_split, named[split], strict=True)
    ]
    more = writing.longest.memory_bytes(format_, layout)
    what = f"writing {format_name} with a row of {format_count(writing.longest.tokens, 'tokens')}"
    workers = writers(runner, len(tasks), dealt=is_dealt(encoding.options), more_bytes=more, what=what)
    weights = [*map(writing.weight, tasks)]
    facts = runner.run(Stage(WRITING_STAGE, writing.unit, writing.do, tasks, weights, grant=workers))
    rest = iter(facts)
    return facts, complete(encoding, layout, {split: [*islice(rest, len(named[split]))] for split in named})


def named_shards(
    encoding: Encoding, layout: Layout, counts: Mapping[str, int]
) -> dict[str, list[tuple[str, str | None]]]:
    """Return the names of the shards, and their second files, of each split, which has so many.

    The manifest has them from here on, and their directories are there; files of others are not replaced.
    """
    home, format_ = encoding.home, shard_format(encoding.options["shard_format"])
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
    home, directories = encoding.home, encoding.directories([*shards])
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


def _shard_tasks(encoding: Encoding, split: Split, rows: DocumentRows | PackedRows) -> "Iterator[partial[ShardTask]]":
    """Yield the task of each shard of a split."""
    tokens = sum(split.ids)
    shard_tokens = rows.shard_tokens(max(tokens, 1) if encoding.single else encoding.options["shard_size"])
    ends = Whole(lambda part: open_source(split.sources[part]), rows.cut) if rows.whole else None
    rest = rows.left_out(tokens)
    planned = without_rest(plan_shards(split.ids, shard_tokens, ends), rest)
    for index, slices in enumerate(planned):
        yield partial(
            ShardTask,
            tokens=sum(slice_.stop - slice_.start for slice_ in slices),
            parts=tuple((split.sources[slice_.part], slice_) for slice_ in slices),
            rows=rows,
            dropped=rest if index == len(planned) - 1 else 0,
            split=None if split.name == "train" else split.name,
        )


def _index_file(home: Directory, name: str, text: str) -> FileFacts:
    """Write a file that a format adds to the directory."""
    write_whole(home / name, text)
    data = text.encode()
    return FileFacts(name, len(data), f"{zlib.crc32(data):08x}")


def damaged_file(runner: Runner, encoding: Encoding, corpus: EncodedCorpus) -> str | None:
    """Read all files of a finished directory; return the name of the first that is missing or not what was written."""
    tasks = [CheckTask(encoding.home / name, size, crc32) for name, size, crc32 in corpus.checksums()]
    sizes = each(_size, [task.path for task in tasks])
    for task, size in zip(tasks, sizes, strict=True):
        if size != task.bytes:
            return task.path.name
    workers, weights = writers(runner, len(tasks), dealt=False), [task.bytes for task in tasks]
    intact = runner.run(Stage(CHECKING_STAGE, "bytes", is_intact, tasks, weights, grant=workers))
    return next((task.path.name for task, is_whole in zip(tasks, intact, strict=True) if not is_whole), None)


def _size(where: Location) -> int | None:
    try:
        return where.stat().st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(where, error) from None
