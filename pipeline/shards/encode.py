"""The two stages of encoding a corpus, run by workers: chunks become parts, parts become shards.

Each writes what the directory does not hold yet, and returns what is complete.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pipeline.base.errors import RunDirectoryError
from pipeline.executors import Need
from pipeline.run import memory
from pipeline.run.work import Work
from pipeline.run.workers import worker_count
from pipeline.shards import manifest
from pipeline.shards.encode_worker import EncodeTask, encode_chunk, packed
from pipeline.shards.layout import PlannedShard, plan_shards
from pipeline.shards.manifest import Encoding
from pipeline.shards.part_file import Part, PartReader, look_at_part
from pipeline.shards.plan import encoding_workers, id_bytes, special_bytes
from pipeline.shards.write_worker import Shard, ShardTask, write_shard
from pipeline.storage import existing
from pipeline.storage.atomic import make_directory
from pipeline.tokenizer.model import Model

_log = logging.getLogger(__name__)
ENCODING_STAGE, WRITING_STAGE = "encoding", "writing shards"


def encode_chunks(work: Work, encoding: Encoding, model: Model, separator: str | None) -> list[Part]:
    """Encode the chunks without parts; returns all parts, in the order of the corpus."""
    work.warn_of_regex()
    plan, special_tokens = encoding.plan, model.vocabulary.special_tokens
    workers = encoding_workers(work.options, model, len(plan.chunks), work.nodes)
    task = partial(
        EncodeTask,
        pattern=replace(model.pattern, tree=None, timeout_s=work.options.pattern_timeout),
        text_field=encoding.options["text_field"],
        special_tokens=special_bytes(model),
        special_ids=tuple(special_tokens.values()),
        errors=encoding.options["errors"],
        max_piece_bytes=None,
        budget_bytes=workers.text_bytes,
        limit_bytes=workers.limit_bytes,
        workers=workers.count,
        model=work.executor.broadcast(packed(model)),
        tokenizer=encoding.options["tokenizer"],
        separator=None if separator is None else special_tokens[separator],
        separators=encoding.options["documents"] == "separator",
        id_bytes=id_bytes(encoding.options["dtype"]),
        cache_bytes=workers.cache_bytes,
    )
    paths = [encoding.part_path(index) for index in range(len(plan.chunks))]
    fingerprints = [encoding.chunk_fingerprint(index) for index in range(len(plan.chunks))]
    found = {
        index: part
        for index, (path, exists) in enumerate(zip(paths, existing(paths), strict=True))
        if exists and (part := look_at_part(path, fingerprints[index])) is not None
    }
    missing = [index for index in range(len(plan.chunks)) if index not in found]
    tasks = [
        task(name=f"chunk {index}", spans=plan.spans(index), output=paths[index], fingerprint=fingerprints[index])
        for index in missing
    ]
    done = plan.bytes - sum(plan.chunks[index].bytes for index in missing)
    _log.info("%d chunks, %d to encode", len(plan.chunks), len(missing))
    work.directory.require_lock()
    make_directory(work.directory / "parts")
    at_once = None if work.nodes else workers.count
    with work.stage(ENCODING_STAGE, plan.bytes, "bytes", done) as advance:
        for position, part in work.executor.run(encode_chunk, tasks, advance, at_once=at_once, need=workers.need):
            found[missing[position]] = part
    return [found[index] for index in range(len(plan.chunks))]


def write_shards(work: Work, encoding: Encoding, parts: Sequence[Part]) -> list[Shard]:
    """Write the shards that are missing; returns all of them, in order."""
    format_, size = encoding.options["shard_format"], encoding.options["shard_size"]
    by_offsets = encoding.options["documents"] == "offsets"
    fingerprints = [encoding.chunk_fingerprint(index) for index in range(len(encoding.plan.chunks))]

    def last_end(part: int, stop: int) -> int | None:
        with PartReader(encoding.part_path(part), fingerprints[part]) as reader:
            return reader.last_end(stop)

    try:
        planned = plan_shards(
            [part.ids for part in parts], size, last_end if by_offsets or format_ == "parquet" else None
        )
    except ValueError as error:
        raise RunDirectoryError(f"{error}; remove that file and run the same command again") from None

    def task(index: int, shard: PlannedShard) -> ShardTask:
        offsets = manifest.offsets_name(index) if by_offsets and format_ != "parquet" else None
        return ShardTask(
            output=work.directory / manifest.shard_name(index, format_),
            offsets=None if offsets is None else work.directory / offsets,
            format=format_,
            id_bytes=id_bytes(encoding.options["dtype"]),
            tokens=shard.stop - shard.start,
            slices=shard.slices,
            parts=tuple((encoding.part_path(one.part), fingerprints[one.part]) for one in shard.slices),
        )

    tasks = [task(index, shard) for index, shard in enumerate(planned)]
    names = [path.name for one in tasks for path in (one.output, one.offsets) if path is not None]
    manifest.save(replace(encoding, shards=tuple(dict.fromkeys((*encoding.shards, *names)))))
    whole = memory.budget(work.options.memory_limit, work.nodes)
    workers = None if work.nodes else whole.workers(max(1, min(worker_count(work.options), len(tasks))))
    need = Need(memory_bytes=whole.worker_bytes + memory.LEAST_WORK_BYTES)
    with work.stage(WRITING_STAGE, sum(part.ids for part in parts), "tokens") as advance:
        written = dict(work.executor.run(write_shard, tasks, advance, at_once=workers, need=need))
    return [written[index] for index in range(len(tasks))]
