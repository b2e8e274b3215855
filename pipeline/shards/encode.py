"""The two stages of encoding a corpus, run by workers: chunks become parts, parts become shards.

Each writes what the directory does not hold yet, and returns what is complete. Where shards start and end depends on
the ids and the ends of documents alone, not on the parts: chunks of any size make the same shards.
"""

import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pipeline.base import system
from pipeline.base.errors import RunDirectoryError, os_error_as
from pipeline.base.memory import Grant
from pipeline.base.units import format_count
from pipeline.run.directory import Directory
from pipeline.run.options import EncodeOptions
from pipeline.run.patterns import slowness
from pipeline.run.runner import Runner, Stage
from pipeline.shards import manifest
from pipeline.shards.begun_shards import MOST_KEPT_BYTES
from pipeline.shards.borders import Whole, longest_document, plan_shards, without_rest
from pipeline.shards.encode_worker import EncodeTask, encode_chunk, packed
from pipeline.shards.encoded_corpus import EncodedCorpus, FileFacts
from pipeline.shards.encoding_tasks import LEAST_TEXT_BYTES, encoding_workers, task_of
from pipeline.shards.formats import shard_format
from pipeline.shards.formats.shard_format import Layout, ShardFacts
from pipeline.shards.ids_file import EncodedChunk, part_of
from pipeline.shards.ids_in_order import open_source
from pipeline.shards.manifest import Encoding, is_dealt
from pipeline.shards.order import Split, writers
from pipeline.shards.packing import DocumentRows, LongRow, PackedRows, layout_of
from pipeline.shards.write_worker import CheckTask, ShardFile, ShardTask, is_intact, write_shard
from pipeline.storage import Location, each, existing, remove, unreadable
from pipeline.storage.atomic import make_directory, write_whole
from pipeline.tokenizer.model import Model

ENCODING_STAGE, WRITING_STAGE, CHECKING_STAGE = "encoding", "writing shards", "checking shards"


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


def encode_chunks(runner: Runner, encoding: Encoding, model: Model, options: EncodeOptions) -> list[EncodedChunk]:
    """Encode the chunks without parts; returns all parts, in the order of the corpus."""
    runner.warn(slowness(model.pattern))
    workers = encoding_workers(runner.broker, runner.workers, model, len(encoding.plan.chunks), runner.nodes)
    shards = encoding.begun
    if shards is not None:  # the nodes of a cluster must not write to one file
        kept_bytes = 0 if runner.nodes else min(MOST_KEPT_BYTES, (workers.text_bytes - LEAST_TEXT_BYTES) // 4)
        shards = replace(shards, kept_bytes=kept_bytes, mark=secrets.token_hex(8))
        workers = replace(workers, text_bytes=workers.text_bytes - kept_bytes)
    task = task_of(
        EncodeTask,
        model,
        options,
        workers,
        model=runner.executor.broadcast(packed(model)),
        tokenizer=encoding.options["tokenizer"],
        cache_bytes=workers.cache_bytes,
        shards=shards,
    )
    return encode_missing(runner, encoding, encode_chunk, task, workers.grant)


def encode_missing(
    runner: Runner,
    encoding: Encoding,
    encode: Callable[[Any], EncodedChunk],
    task_of_chunk: Callable[..., Any],
    workers: Grant,
) -> list[EncodedChunk]:
    """Encode the chunks without parts, each by a task of what a chunk has of its own; returns all parts, in order."""
    encoding.directory.require_lock()
    make_directory(encoding.directory / "parts")
    stage = Stage(
        ENCODING_STAGE,
        "bytes",
        encode,
        encoding.plan.tasks(task_of_chunk, encoding.parts()),
        weights=[chunk.bytes for chunk in encoding.plan.chunks],
        stored=partial(_stored_parts, encoding.directory),
        kept="encoded",
        grant=workers,
    )
    return runner.run(stage)


def _stored_parts(directory: Directory, tasks: Sequence[Any]) -> list[EncodedChunk | None]:
    """Return the parts that are whole; others are removed, since workers read how many ids each has."""
    paths = [task.output for task in tasks]
    exists = existing(paths)
    chunks = [
        part_of(task.output, task.fingerprint) if there else None for task, there in zip(tasks, exists, strict=True)
    ]
    directory.refuse_replaced(paths, chunks)
    for index, (task, there) in enumerate(zip(tasks, exists, strict=True)):
        chunk = chunks[index]
        if chunk is not None and (chunk.at is None or task.shards.holds(chunk)):
            chunks[index] = replace(chunk, earlier=True)
            continue
        chunks[index] = None
        if there:
            with os_error_as(RunDirectoryError, f"{task.output} cannot be removed", "remove it"):
                remove(task.output)
    return chunks


def write_shards(
    runner: Runner, encoding: Encoding, model: Model, splits: Sequence[Split], parts: Sequence[EncodedChunk]
) -> tuple[list[ShardFacts], list[FileFacts], Layout]:
    """Write the shards that are missing, and the files of their format; returns all of them, in order.

    Ids that are in their shards are read again if an earlier run wrote them there.
    """
    rows, checked = rows_of(encoding.options, model), any(part.earlier for part in parts)
    tasks = {split.name: list(_shard_tasks(encoding, split, rows, checked=checked)) for split in splits}
    tokens = max((task.keywords["tokens"] for of_split in tasks.values() for task in of_split), default=0)
    longest = rows.longest(tokens, sum(part.documents for part in parts), longest_document(parts))
    writing = Writing(write_shard, tasks, "tokens", lambda task: task.tokens, longest)
    return *write_missing(runner, encoding, rows.layout, writing), rows.layout


def write_missing(
    runner: Runner, encoding: Encoding, layout: Layout, writing: Writing
) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Write the shards that are missing, each by its task, and the files of their format; returns all, in order."""
    home, format_name = encoding.home, encoding.options["shard_format"]
    format_, directories = shard_format(format_name), encoding.directories([*writing.tasks])
    by_split: dict[str, list[Any]] = {}
    for split, of_split in writing.tasks.items():
        stems = (encoding.stem(split, directories[split], index, len(of_split)) for index in range(len(of_split)))
        files = (ShardFile(home.location, *format_.names(stem, layout), format_, layout) for stem in stems)
        by_split[split] = [task(file=file) for task, file in zip(of_split, files, strict=True)]
    tasks = [*chain(*by_split.values())]
    names = [name for task in tasks for name in task.file.names]
    names += format_.index(layout, dict.fromkeys(directories.values(), ()))
    listed = (True if name in encoding.shards else None for name in names)
    home.refuse_replaced([home / name for name in names], listed)
    manifest.save(replace(encoding, shards=tuple(dict.fromkeys((*encoding.shards, *names)))))
    for name in filter(None, directories.values()):
        make_directory(home / name)
    more = writing.longest.memory_bytes(format_, layout)
    what = f"writing {format_name} with a row of {format_count(writing.longest.tokens, 'tokens')}"
    workers = writers(runner, len(tasks), dealt=is_dealt(encoding.options), more_bytes=more, what=what)
    weights = [*map(writing.weight, tasks)]
    facts = runner.run(Stage(WRITING_STAGE, writing.unit, writing.do, tasks, weights, grant=workers))
    for path in {(home / name).parent for name in names}:  # not after each of many small shards
        if isinstance(path, Path):
            system.flush(path)
    rest = iter(facts)
    shards = {directories[split]: [*islice(rest, len(of_split))] for split, of_split in by_split.items()}
    encoding.directory.require_lock()
    return facts, [_index_file(home, *file) for file in format_.index(layout, shards).items()]


def rows_of(options: Mapping[str, Any], model: Model) -> DocumentRows | PackedRows:
    """Return what rows the documents of a corpus become."""
    format_, special = shard_format(options["shard_format"]), model.vocabulary.special_tokens
    layout = layout_of(options, format_)
    if layout.documents:
        return DocumentRows(layout, whole=format_.ends_with_row(layout))
    tokens = (model.pad_token, model.eos_token, model.separator)
    pad = next((special[token] for token in tokens if token in special), 0)
    return PackedRows(layout, options["pack"], options["sequence_length"], pad)


def _shard_tasks(
    encoding: Encoding, split: Split, rows: DocumentRows | PackedRows, *, checked: bool
) -> "Iterator[partial[ShardTask]]":
    """Yield the task of each shard of a split."""
    in_place, tokens = encoding.begun is not None, sum(split.ids)
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
            in_place=in_place,
            checked=checked,
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
