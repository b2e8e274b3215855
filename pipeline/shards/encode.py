"""The two stages of encoding a corpus, run by workers: chunks become parts, parts become shards.

Each writes what the directory does not hold yet, and returns what is complete. Where shards start and end depends on
the ids and the ends of documents alone, not on the parts: chunks of any size make the same shards.
"""

import logging
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from pipeline.run import memory
from pipeline.run.work import Work
from pipeline.run.workers import worker_count
from pipeline.shards import manifest
from pipeline.shards.encode_worker import EncodeTask, encode_chunk, packed
from pipeline.shards.formats import shard_format
from pipeline.shards.formats.shard_format import IDS, Layout, ShardFacts
from pipeline.shards.manifest import EncodedCorpus, Encoding, FileFacts
from pipeline.shards.part_file import Part, Slice, open_part, part_of
from pipeline.shards.plan import encoding_workers, task_of
from pipeline.shards.write_worker import CheckTask, ShardTask, is_intact, write_shard
from pipeline.storage import Location, Remote, each, existing, unreadable
from pipeline.storage.atomic import make_directory, write_whole
from pipeline.tokenizer.model import Model

_log = logging.getLogger(__name__)
ENCODING_STAGE, WRITING_STAGE, CHECKING_STAGE = "encoding", "writing shards", "checking shards"
LastEnd = Callable[[int, int], int | None]  # of the part with this index: the last end of a document up to a position


def encode_chunks(work: Work, encoding: Encoding, model: Model) -> list[Part]:
    """Encode the chunks without parts; returns all parts, in the order of the corpus."""
    work.warn_of_regex()
    plan, stored = encoding.plan, encoding.parts()
    workers = encoding_workers(work.options, model, len(stored), work.nodes)
    task = task_of(
        EncodeTask,
        model,
        work.options,
        workers,
        model=work.executor.broadcast(packed(model)),
        tokenizer=encoding.options["tokenizer"],
        cache_bytes=workers.cache_bytes,
    )

    def of_chunk(index: int) -> EncodeTask:
        output, fingerprint = stored[index]
        return task(name=f"chunk {index}", spans=plan.spans(index), output=output, fingerprint=fingerprint)

    return encode_missing(work, encoding, encode_chunk, of_chunk, workers)


def encode_missing(
    work: Work,
    encoding: Encoding,
    encode: Callable[[Any], Part],
    task_of_chunk: Callable[[int], Any],
    workers: memory.Workers,
) -> list[Part]:
    """Encode the chunks without parts, each by its task; returns all parts, in the order of the corpus."""
    plan, stored = encoding.plan, encoding.parts()
    there = existing([path for path, _ in stored])
    found = {index: part for index in range(len(stored)) if there[index] and (part := part_of(*stored[index]))}
    missing = [index for index in range(len(stored)) if index not in found]
    tasks = [task_of_chunk(index) for index in missing]
    done = plan.bytes - sum(plan.chunks[index].bytes for index in missing)
    _log.info("%d chunks, %d to encode", len(stored), len(missing))
    work.directory.require_lock()
    make_directory(work.directory / "parts")
    with work.stage(ENCODING_STAGE, plan.bytes, "bytes", done) as advance:
        work.keeps("encoded", done, plan.bytes)
        run = work.executor.run(encode, tasks, advance, at_once=workers.at_once, need=workers.need)
        for position, part in run:
            found[missing[position]] = part
            done += plan.chunks[missing[position]].bytes
            work.keeps("encoded", done, plan.bytes)
    return [found[index] for index in range(len(stored))]


def write_shards(work: Work, encoding: Encoding, parts: Sequence[Part]) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Write the shards that are missing, and the files of their format; returns all of them, in order."""
    options, stored = encoding.options, encoding.parts()
    format_, layout = shard_format(options["shard_format"]), Layout({IDS: options["dtype"]})
    by_offsets = options["documents"] == "offsets"

    def last_end(part: int, stop: int) -> int | None:
        with open_part(*stored[part]) as reader:
            return reader.last_end(stop)

    sizes = [part.ids for part in parts]
    planned = plan_shards(sizes, options["shard_size"], last_end if by_offsets or format_.rows else None)
    named = [format_.names(index, len(planned), offsets=by_offsets) for index in range(len(planned))]
    tasks = [
        ShardTask(
            output=work.directory / name,
            offsets=None if second is None else work.directory / second,
            format=options["shard_format"],
            layout=layout,
            tokens=sum(one.stop - one.start for one in shard),
            parts=tuple((*stored[one.part], one) for one in shard),
        )
        for (name, second), shard in zip(named, planned, strict=True)
    ]
    names = [name for pair in named for name in pair if name is not None]
    names += format_.index(layout, {"": ()})
    manifest.save(replace(encoding, shards=tuple(dict.fromkeys((*encoding.shards, *names)))))
    workers = writers(work, len(tasks))
    with work.stage(WRITING_STAGE, sum(sizes), "tokens") as advance:
        run = work.executor.run(write_shard, tasks, advance, at_once=workers.at_once, need=workers.need)
        written = dict(run)
    facts = [written[index] for index in range(len(tasks))]
    return facts, [index_file(work, *file) for file in format_.index(layout, {"": facts}).items()]


def index_file(work: Work, name: str, text: str) -> FileFacts:
    """Write a file that a format adds to the directory."""
    work.directory.require_lock()
    write_whole(work.directory / name, text)
    data = text.encode()
    return FileFacts(name, len(data), f"{zlib.crc32(data):08x}")


def damaged_file(work: Work, encoding: Encoding, corpus: EncodedCorpus) -> str | None:
    """Read all files of a finished directory; return the name of the first that is missing or not what was written."""
    location = encoding.directory.location
    tasks = [CheckTask(location / name, size, crc32) for name, size, crc32 in corpus.checksums()]
    sizes = each(_size, [task.path for task in tasks], remote=isinstance(location, Remote))
    for task, size in zip(tasks, sizes, strict=True):
        if size != task.bytes:
            return task.path.name
    workers = writers(work, len(tasks))
    with work.stage(CHECKING_STAGE, sum(task.bytes for task in tasks), "bytes") as advance:
        run = work.executor.run(is_intact, tasks, advance, at_once=workers.at_once, need=workers.need)
        damaged = [index for index, intact in run if not intact]
    return tasks[min(damaged)].path.name if damaged else None


def writers(work: Work, tasks: int) -> memory.Workers:
    """Return the workers that write or check that many files."""
    whole = memory.budget(work.options.memory_limit, work.nodes)
    count = whole.workers(max(1, min(worker_count(work.options), tasks)))
    return memory.Workers(whole, count, count, memory.LEAST_WORK_BYTES)


def _size(where: Location) -> int | None:
    try:
        return where.stat().st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(where, error) from None


def plan_shards(part_ids: Sequence[int], shard_tokens: int, last_end: LastEnd | None) -> list[tuple[Slice, ...]]:
    """Return the slices of each shard of parts with these numbers of ids, none larger than `shard_tokens`.

    With `last_end` a shard ends with the last document that ends within it; a document longer than a shard is cut.
    Without it every shard but the last has exactly `shard_tokens`.

    >>> [[(one.part, one.start, one.stop) for one in shard] for shard in plan_shards([5, 4], 4, None)]
    [[(0, 0, 4)], [(0, 4, 5), (1, 0, 3)], [(1, 3, 4)]]
    """
    offsets = list(accumulate(part_ids, initial=0))
    borders = [0]
    while borders[-1] < offsets[-1]:
        start, limit = borders[-1], min(borders[-1] + shard_tokens, offsets[-1])
        if last_end is not None and limit < offsets[-1]:
            # The parts that may hold the last end, from the last one
            within = (
                part for part in reversed(range(len(part_ids))) if offsets[part] <= limit and offsets[part + 1] >= start
            )
            ends = (
                offsets[part] + end for part in within if (end := last_end(part, limit - offsets[part])) is not None
            )
            end = next(ends, start)
            limit = end if end > start else limit
        borders.append(limit)
    if not offsets[-1] and part_ids:
        borders.append(0)  # one shard, of documents without ids
    return [
        tuple(  # a part from `stop` on may start with the end of a document
            Slice(part, max(start - first, 0), min(stop, after) - first, with_start=first > start or start == 0)
            for part, (first, after) in enumerate(pairwise(offsets))
            if first <= stop and after >= start
        )
        for start, stop in pairwise(borders)
    ]
