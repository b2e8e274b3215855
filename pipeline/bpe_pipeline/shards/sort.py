"""Sorting the documents of a bucket by their keys, in bounded memory: a bucket that is too large is dealt out again.

Documents with one key are in the order of the corpus, so the order depends on nothing but keys and numbers.
"""

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.shards.blocks import IdBlock, Sink
from bpe_pipeline.shards.bucket import BucketFiles, Extent, OpenBucket
from bpe_pipeline.shards.formats.shard_format import ID_CODES
from bpe_pipeline.shards.route import dealt

MOST_BITS = 6  # 64 buckets, each of two open files
_BUCKET_BYTES = 16 << 20  # of text
_ENTRY_BYTES = 48  # of memory: its two words, where it starts, its place in the order twice, its end
_ENDED = 1 << 63
_AT_ONCE = 1 << 20  # ids
LEAST_SORT_BYTES = 48 << 20  # with which a bucket of any size is dealt out again


def bits_of(corpus_bytes: int, sets: int) -> int:
    """Return how many bits of the keys name the buckets of a corpus of that many bytes. sets: of buckets, 1 or 2."""
    return min(max(corpus_bytes // _BUCKET_BYTES, 1).bit_length(), MOST_BITS - sets + 1)


@dataclass(frozen=True)
class SortTask:
    """A bucket to sort. extent: of its files; skip: leading bits that all of its keys share; memory_bytes: for it."""

    files: BucketFiles
    extent: Extent
    skip: int
    memory_bytes: int

    def __str__(self) -> str:
        return f"bucket {self.files.ids}"


def memory_of(extent: Extent, id_bytes: int) -> int:
    """Return the memory that sorting a bucket takes: its ids twice, and its entries."""
    return 2 * extent.ids * id_bytes + extent.numbers // 2 * _ENTRY_BYTES


def sort_bucket(task: SortTask, sink: Sink) -> ChunkStatistics:
    """Pass the sorted documents of a bucket to the sink; returns empty statistics: nothing was read of a corpus."""
    at = 0
    for ids, ends in _sorted(task) if task.extent.ids else ():
        done = 0
        for start in range(0, max(len(ids), 1), _AT_ONCE):
            stop = min(start + _AT_ONCE, len(ids))
            upto = bisect_right(ends, stop, done)
            own, done = ends[done:upto], upto
            sink(ids[start:stop], memoryview(array("Q", (end + at for end in own))) if at else own)
            report_progress(stop - start)
        at += len(ids)
    return ChunkStatistics()


def _sorted(task: SortTask) -> Iterator[IdBlock]:
    """Yield blocks whose ends are counted from their first id."""
    files, id_bytes = task.files, task.files.id_bytes
    if memory_of(task.extent, id_bytes) <= task.memory_bytes:
        entries = array("Q", files.numbers.read_bytes())
        ids = files.ids.read_bytes()
        if zlib.crc32(ids) != task.extent.ids_crc32 or zlib.crc32(entries) != task.extent.numbers_crc32:
            raise RunDirectoryError(f"{files.ids} is not as it was written; remove it and run the same command again")
        yield _in_order(IdBlock(memoryview(ids), memoryview(entries)), id_bytes)
    elif task.skip + MOST_BITS > 64 or _have_one_key(task):
        for block in _blocks(task):
            yield _in_order(block, id_bytes)
    else:
        for smaller in _dealt_again(task):
            yield from _sorted(smaller)
            smaller.files.remove()


def _in_order(block: IdBlock, id_bytes: int) -> IdBlock:
    ids, ends = _core.in_order(block.ids, block.ends, id_bytes)
    return IdBlock(ids.cast(ID_CODES[id_bytes]), ends)


def _have_one_key(task: SortTask) -> bool:
    """Return whether all documents have the same key, as one document has that is larger than the memory."""
    blocks = task.files.number_blocks(task.extent.numbers)
    first = next(blocks)
    return all(block[::2] == array("Q", first[:1] * (len(block) // 2)) for block in chain([first], blocks))


def _blocks(task: SortTask) -> Iterator[IdBlock]:
    """Yield ids and entries as they were dealt out."""
    id_bytes = task.files.id_bytes
    with task.files.ids.open("rb") as file:
        for entries in task.files.number_blocks(task.extent.numbers, 2 << 10):
            start = size = 0
            for number in range(1, len(entries), 2):
                size += entries[number] & ~_ENDED
                if size >= _AT_ONCE or number + 1 == len(entries):
                    ids = memoryview(file.read(size * id_bytes))
                    yield IdBlock(ids, memoryview(entries)[start : number + 1])
                    start, size = number + 1, 0


def _dealt_again(task: SortTask) -> list[SortTask]:
    """Deal a bucket out to smaller ones by the next bits of the keys; returns these, in order."""
    files, buckets = task.files, dict[int, OpenBucket]()
    try:
        for block in _blocks(task):
            for number, part in dealt(block, files.id_bytes, task.skip, MOST_BITS):
                if number not in buckets:
                    smaller = BucketFiles(files.directory, f"{files.name}-{number:03d}", files.id_bytes)
                    buckets[number] = OpenBucket(smaller)
                buckets[number].append(*part)
    finally:
        for bucket in buckets.values():
            bucket.close()
    skip, memory_bytes = task.skip + MOST_BITS, task.memory_bytes
    return [SortTask(bucket.files, bucket.extent, skip, memory_bytes) for _, bucket in sorted(buckets.items())]
