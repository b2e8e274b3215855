"""The two stages of encoding a corpus, handed out to workers: chunks become parts, parts become shards.

Each does what the directory does not hold yet, and gives what is there when it is done.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pipeline.base.errors import RunDirectoryError
from pipeline.base.events import Advanced, Listener, StageStarted
from pipeline.executors import Executor, Need
from pipeline.run import directory as run_directory
from pipeline.run import memory
from pipeline.run.options import Options
from pipeline.run.workers import worker_count
from pipeline.shards import manifest
from pipeline.shards.encode_worker import EncodeTask, encode_chunk, packed
from pipeline.shards.layout import PlannedShard, plan_shards
from pipeline.shards.manifest import Encoding
from pipeline.shards.part_file import Part, PartReader, look_at_part
from pipeline.shards.plan import id_bytes, share_of, special_bytes, tell_of_pattern
from pipeline.shards.write_worker import Shard, ShardTask, write_shard
from pipeline.storage import Location, existing
from pipeline.storage.atomic import make_directory
from pipeline.tokenizer.model import Model

_log = logging.getLogger(__name__)
ENCODING_STAGE, WRITING_STAGE = "encoding", "writing shards"


def encode_chunks(
    directory: Location,
    encoding: Encoding,
    options: Options,
    model: Model,
    separator: str | None,
    executor: Executor,
    listener: Listener,
) -> list[Part]:
    """Encode the chunks without parts; gives all parts, in the order of the corpus."""
    tell_of_pattern(model, listener)
    nodes = executor.nodes()
    share = share_of(options, model, len(encoding.chunks), nodes)
    special_tokens = model.vocabulary.special_tokens
    common = partial(
        EncodeTask,
        pattern=replace(model.pattern, tree=None, timeout_s=options.pattern_timeout),
        text_field=encoding.options["text_field"],
        special_tokens=special_bytes(model),
        special_ids=tuple(special_tokens.values()),
        errors=encoding.options["errors"],
        max_piece_bytes=None,
        room_bytes=share.room_bytes,
        limit_bytes=share.limit_bytes,
        workers=share.workers,
        model=executor.broadcast(packed(model)),
        tokenizer=encoding.options["tokenizer"],
        separator=None if separator is None else special_tokens[separator],
        separators=encoding.options["documents"] == "separator",
        id_bytes=id_bytes(encoding.options["dtype"]),
        cache_bytes=share.cache_bytes,
    )
    found: dict[int, Part] = {}
    tasks: list[tuple[int, EncodeTask]] = []
    paths = [manifest.part_path(directory, index) for index in range(len(encoding.chunks))]
    for index, (chunk, path, is_there) in enumerate(zip(encoding.chunks, paths, existing(paths), strict=True)):
        fingerprint = encoding.chunk_fingerprint(chunk)
        part = look_at_part(path, fingerprint) if is_there else None
        if part is None:
            spans = tuple((encoding.files[span.file], span.start, span.stop) for span in chunk.spans)
            tasks.append((index, common(name=f"chunk {index}", spans=spans, output=path, fingerprint=fingerprint)))
        else:
            found[index] = part
    total = sum(chunk.bytes for chunk in encoding.chunks)
    missing = sum(encoding.chunks[index].bytes for index, _ in tasks)
    listener(StageStarted(ENCODING_STAGE, total, "bytes", done=total - missing))
    _log.info("%d chunks, %d to encode", len(encoding.chunks), len(tasks))
    run_directory.require_ours(directory)
    make_directory(directory / "parts")
    for position, part in executor.run(
        encode_chunk,
        [task for _, task in tasks],
        lambda amount: listener(Advanced(ENCODING_STAGE, amount)),
        at_once=None if nodes else share.workers,
        need=Need(memory_bytes=share.bytes),
    ):
        found[tasks[position][0]] = part
    return [found[index] for index in range(len(encoding.chunks))]


def write_shards(
    directory: Location,
    encoding: Encoding,
    parts: Sequence[Part],
    options: Options,
    executor: Executor,
    listener: Listener,
) -> list[Shard]:
    """Write the shards that are missing; gives all of them, in order."""
    format_, size = encoding.options["shard_format"], encoding.options["shard_size"]
    by_offsets = encoding.options["documents"] == "offsets"
    ids = sum(part.ids for part in parts)
    listener(StageStarted(WRITING_STAGE, ids, "tokens"))
    fingerprints = [encoding.chunk_fingerprint(chunk) for chunk in encoding.chunks]

    def last_end(part: int, stop: int) -> int | None:
        with PartReader(manifest.part_path(directory, part), fingerprints[part]) as reader:
            return reader.last_end(stop)

    try:
        planned = plan_shards(
            [part.ids for part in parts], size, last_end if by_offsets or format_ == "parquet" else None
        )
    except ValueError as error:
        raise RunDirectoryError(
            f"{error}; remove that file and run the same command again, which makes it anew"
        ) from None

    def task(index: int, shard: PlannedShard) -> ShardTask:
        return ShardTask(
            output=directory / manifest.shard_name(index, format_),
            offsets=directory / manifest.offsets_name(index) if by_offsets and format_ != "parquet" else None,
            format=format_,
            id_bytes=id_bytes(encoding.options["dtype"]),
            tokens=shard.stop - shard.start,
            slices=shard.slices,
            parts=tuple((manifest.part_path(directory, one.part), fingerprints[one.part]) for one in shard.slices),
        )

    tasks = [task(index, shard) for index, shard in enumerate(planned)]
    run_directory.require_ours(directory)
    nodes = executor.nodes()
    whole = memory.budget(options.memory_limit, nodes)
    written = dict(
        executor.run(
            write_shard,
            tasks,
            lambda amount: listener(Advanced(WRITING_STAGE, amount)),
            at_once=None if nodes else whole.workers(max(1, min(worker_count(options), len(tasks)))),
            need=Need(memory_bytes=whole.worker_bytes + memory.LEAST_ROOM_BYTES),
        )
    )
    return [written[index] for index in range(len(tasks))]
