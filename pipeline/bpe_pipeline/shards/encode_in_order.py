"""Encoding a corpus in its order: threads of this process, or workers, make ids, and one writer makes shards of them.

Workers are for text that Python touches, for nodes of a cluster and for `--part`: their ids are in parts, which are
read in turn, and removed when the journal says that they are written.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.base.units import format_count
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.run.options import EncodeOptions
from bpe_pipeline.run.patterns import on_regex, slowness
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.shards.chunk_ids import Made
from bpe_pipeline.shards.encode import ENCODING_STAGE, WRITING_STAGE, complete, corpus_stage, named_shards, rows_of
from bpe_pipeline.shards.encode_worker import ShardsTask
from bpe_pipeline.shards.encoded_corpus import FileFacts
from bpe_pipeline.shards.encoding_tasks import EncodingWorkers, encoding_workers, task_of
from bpe_pipeline.shards.formats import shard_format
from bpe_pipeline.shards.formats.shard_format import Layout, ShardFacts
from bpe_pipeline.shards.ids_file import EncodedChunk
from bpe_pipeline.shards.ids_in_order import Slice, open_part
from bpe_pipeline.shards.journal import Journal
from bpe_pipeline.shards.manifest import Encoding, holds_out
from bpe_pipeline.shards.order import held_out_below, writers
from bpe_pipeline.shards.ordered_ids import ids_by_threads
from bpe_pipeline.shards.ordered_shards import OrderedShards
from bpe_pipeline.shards.ordered_writer import OrderedWriter
from bpe_pipeline.storage import existing, remove
from bpe_pipeline.storage.atomic import move
from bpe_pipeline.tokenizer.model import Model


def write_in_order(
    runner: Runner,
    encoding: Encoding,
    model: Model,
    options: EncodeOptions,
    accept: Callable[[ChunkStatistics, int], object],
) -> tuple[list[ShardFacts], list[FileFacts], Layout]:
    """Encode what is missing and finish the shards; returns and takes what `write_by_parts` does."""
    runner.warn(slowness(model.pattern))
    of_shards = encoding.options
    shards = OrderedShards(
        shard_format(of_shards["shard_format"]),
        rows_of(of_shards, model),
        sys.maxsize if encoding.single else of_shards["shard_size"],
        ["train", *(["validation"] if holds_out(of_shards) else [])],
        encoding.journal.parent,
    )
    held_out = partial(held_out_below, encoding) if holds_out(of_shards) else None
    workers = encoding_workers(runner.broker, runner.workers, model, len(encoding.plan.chunks), runner.nodes).in_order()
    with Journal(encoding.journal, encoding.journal_of()) as journal:
        early = shards.in_place or not workers.grant.given
        with OrderedWriter(shards, journal, held_out, early=early) as writer:
            if not writer.resume():
                runner.warn(f"what {encoding.journal} speaks of is not as it was written: encoding from the start")
            _write(runner, encoding, model, options, workers, writer)
            accept(writer.position.statistics, writer.documents)
            _finish(runner, shards, writer)
            return *_published(encoding, shards, writer), shards.layout


def _write(
    runner: Runner,
    encoding: Encoding,
    model: Model,
    options: EncodeOptions,
    workers: EncodingWorkers,
    writer: OrderedWriter,
) -> None:
    """Write the ids of the chunks that are not written."""
    plan, first = encoding.plan, writer.position.chunk
    has_parts = any(existing([part.path for part in encoding.parts()[first:]]))
    if runner.nodes or has_parts or on_regex(model.pattern):
        with closing(_ids_by_workers(runner, encoding, model, options, workers, writer)) as made:
            writer.write(made, workers.grant.count)
        return
    if first == len(plan.chunks):
        runner.skip(ENCODING_STAGE)
        writer.write((), workers.grant.count)
        return
    done = sum(chunk.bytes for chunk in plan.chunks[:first])
    with runner.reporting(ENCODING_STAGE, plan.bytes, "bytes", done, kept="encoded") as advance:
        task = task_of(ShardsTask, model, options, workers, held_out_from=plan.held_out_from)
        with closing(ids_by_threads(model, task, plan, workers, first, advance)) as made:
            writer.write(made, workers.grant.count)
    _core.give_back_memory()


def _ids_by_workers(
    runner: Runner,
    encoding: Encoding,
    model: Model,
    options: EncodeOptions,
    workers: EncodingWorkers,
    writer: OrderedWriter,
) -> Generator[Made, None, None]:
    """Yield the ids of each chunk that is not written, and at its end what was read, from parts that workers write."""
    parts, encoded = encoding.parts(), dict[int, EncodedChunk]()
    chunk = removed = writer.position.chunk
    for index, part in runner.each(corpus_stage(runner, encoding, model, options, workers)):
        encoded[index] = part
        while chunk in encoded:
            of_chunk = encoded.pop(chunk)
            with open_part(parts[chunk]) as reader:
                for ids, ends in reader.blocks(Slice(chunk, 0, of_chunk.ids, with_start=True)):
                    yield ids, memoryview(ends)
            chunk += 1
            yield of_chunk.statistics
            for old in range(removed, writer.saved_chunks):
                remove(parts[old].path)
            removed = max(removed, writer.saved_chunks)


def _finish(runner: Runner, shards: OrderedShards, writer: OrderedWriter) -> None:
    """Finish the shards that are not: those that were left for when no ids are made any more."""
    if not writer.unfinished:
        return
    more_bytes, longest = max((shards.more_bytes(closed), closed.longest) for closed in writer.unfinished.values())
    what = f"writing {shards.format.extension} with a row of {format_count(longest, 'tokens')}"
    grant = writers(runner, len(writer.unfinished), dealt=False, more_bytes=more_bytes, what=what)
    total = sum(closed.ids for closed in writer.unfinished.values())
    with runner.reporting(WRITING_STAGE, total, "tokens") as advance:
        writer.finish(grant.count, advance)


def _published(
    encoding: Encoding, shards: OrderedShards, writer: OrderedWriter
) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Give all finished shards their names; returns their facts, and the files of the format."""
    facts, layout = writer.facts, shards.layout
    has_ids = any(of_shard.tokens or of_shard.documents for of_shard in facts.values())
    splits = shards.splits if has_ids else ["train"]
    by_split = {split: [facts[shard] for shard in sorted(facts) if shard[0] == split] for split in splits}
    named = named_shards(encoding, layout, {split: len(of_split) for split, of_split in by_split.items()})
    for split, of_split in by_split.items():
        for index, names in enumerate(named[split]):
            _move(shards.finished(split, index), names, encoding)
            of_split[index] = replace(of_split[index], name=names[0], offsets=names[1])
        if left_out := writer.position.left_out.get(split):
            of_split[-1] = replace(of_split[-1], dropped=left_out)
    return [one for of_split in by_split.values() for one in of_split], complete(encoding, layout, by_split)


def _move(hidden: tuple[Path, Path | None], names: tuple[str, str | None], encoding: Encoding) -> None:
    """Give a finished shard its name, and its second file before it, unless an earlier run did."""
    for path, name in zip(reversed(hidden), reversed(names), strict=True):
        if path is None or name is None:
            continue
        final = encoding.home / name
        with os_error_as(RunDirectoryError, f"{final} cannot be written", "start again with --overwrite"):
            if path.exists() or not final.exists():
                move(path, final)
