"""The two stages of encoding a corpus, run by workers: chunks become parts, parts become shards.

Each writes what the directory does not hold yet, and returns what is complete.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from pipeline.run import memory
from pipeline.run.work import Work
from pipeline.run.workers import worker_count
from pipeline.shards import manifest
from pipeline.shards.encode_worker import EncodeTask, encode_chunk, packed
from pipeline.shards.formats import FORMATS
from pipeline.shards.formats.shard_format import ID_BYTES
from pipeline.shards.layout import Slice, plan_shards
from pipeline.shards.manifest import Encoding, ShardFacts
from pipeline.shards.part_file import Part, open_part, part_of
from pipeline.shards.plan import encoding_workers, task_of
from pipeline.shards.write_worker import ShardTask, write_shard
from pipeline.storage import existing
from pipeline.storage.atomic import make_directory
from pipeline.tokenizer.model import Model

_log = logging.getLogger(__name__)
ENCODING_STAGE, WRITING_STAGE = "encoding", "writing shards"


def encode_chunks(work: Work, encoding: Encoding, model: Model) -> list[Part]:
    """Encode the chunks without parts; returns all parts, in the order of the corpus."""
    work.warn_of_regex()
    plan = encoding.plan
    workers = encoding_workers(work.options, model, len(plan.chunks), work.nodes)
    task = task_of(
        EncodeTask,
        model,
        work.options,
        workers,
        model=work.executor.broadcast(packed(model)),
        tokenizer=encoding.options["tokenizer"],
        cache_bytes=workers.cache_bytes,
    )
    stored = encoding.parts()
    there = existing([path for path, _ in stored])
    found = {index: part for index in range(len(stored)) if there[index] and (part := part_of(*stored[index]))}
    missing = [index for index in range(len(stored)) if index not in found]
    tasks = [
        task(name=f"chunk {index}", spans=plan.spans(index), output=stored[index][0], fingerprint=stored[index][1])
        for index in missing
    ]
    done = plan.bytes - sum(plan.chunks[index].bytes for index in missing)
    _log.info("%d chunks, %d to encode", len(plan.chunks), len(missing))
    work.directory.require_lock()
    make_directory(work.directory / "parts")
    with work.stage(ENCODING_STAGE, plan.bytes, "bytes", done) as advance:
        run = work.executor.run(encode_chunk, tasks, advance, at_once=workers.at_once, need=workers.need)
        found |= {missing[position]: part for position, part in run}
    return [found[index] for index in range(len(stored))]


def write_shards(work: Work, encoding: Encoding, parts: Sequence[Part]) -> list[ShardFacts]:
    """Write the shards that are missing; returns all of them, in order."""
    options = encoding.options
    format_ = options["shard_format"]
    by_offsets, rows = options["documents"] == "offsets", FORMATS[format_].rows
    stored = encoding.parts()

    def last_end(part: int, stop: int) -> int | None:
        with open_part(*stored[part]) as reader:
            return reader.last_end(stop)

    def task(index: int, shard: Sequence[Slice]) -> ShardTask:
        return ShardTask(
            output=work.directory / manifest.shard_name(index, format_),
            offsets=work.directory / manifest.offsets_name(index) if by_offsets and not rows else None,
            format=format_,
            id_bytes=ID_BYTES[options["dtype"]],
            tokens=sum(one.stop - one.start for one in shard),
            parts=tuple((*stored[one.part], one) for one in shard),
        )

    sizes = [part.ids for part in parts]
    planned = plan_shards(sizes, options["shard_size"], last_end if by_offsets or rows else None)
    tasks = [task(index, shard) for index, shard in enumerate(planned)]
    names = [path.name for one in tasks for path in (one.output, one.offsets) if path is not None]
    manifest.save(replace(encoding, shards=tuple(dict.fromkeys((*encoding.shards, *names)))))
    whole = memory.budget(work.options.memory_limit, work.nodes)
    count = whole.workers(max(1, min(worker_count(work.options), len(tasks))))
    workers = memory.Workers(whole, count, count, memory.LEAST_WORK_BYTES)
    with work.stage(WRITING_STAGE, sum(sizes), "tokens") as advance:
        run = work.executor.run(write_shard, tasks, advance, at_once=workers.at_once, need=workers.need)
        written = dict(run)
    return [written[index] for index in range(len(tasks))]
