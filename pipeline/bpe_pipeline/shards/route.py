"""Which bucket each document goes to: a pure function of its ids, its number in the corpus, and the seed.

In the order of the corpus there is one bucket, `train`; with validation there are two: a hash of its ids decides where
a document goes or, in a corpus of few documents, whether it is in the last share of the text. To shuffle documents,
their sort keys are hashes of their numbers: they are dealt out by the top bits of the keys, and the buckets are sorted
in turn, in bounded memory: one that is too large is dealt out again. Documents with one key are in the order of the
corpus, so the order depends on nothing but keys and numbers.
"""

import hashlib
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, groupby
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.shards.blocks import NO_ENDS, IdBlock, Sink
from bpe_pipeline.shards.bucket import BucketFiles, Extent, OpenBucket
from bpe_pipeline.shards.formats import BLOCK_IDS, ID_CODES

_ALL = 1 << 64  # hashes
_IN_MEMORY_BYTES = 16 << 20  # of a document that has not ended
_MOST_BITS = 6  # 64 buckets, each of two open files
_AGAIN_BITS = 4  # of one that is dealt out again, which each thread may do
_BUCKET_BYTES = 16 << 20  # of text
_ENTRY_BYTES = 48  # of memory: its two words, where it starts, its place in the order twice, its end
_ENDED = 1 << 63
_AT_ONCE = 1 << 20  # ids
LEAST_SORT_BYTES = 48 << 20  # with which a bucket of any size is dealt out again
Routed = Iterator[tuple[str, IdBlock, int]]
"""A bucket, what it gets, and the position of the first id as the ends are counted."""


class Start(NamedTuple):
    """Where a block starts: its source, the position there of its first id, and the number of its first document."""

    source: int
    id: int
    document: int


class Route:
    """Passes blocks of ids on to buckets: this one all to training, in the order of the corpus.

    waits: whether a document waits for its end.
    """

    waits = False

    def buckets(self, block: IdBlock, at: Start) -> Routed:
        """Yield what each bucket gets of a block that starts there."""
        yield "train", block, at.id

    def end(self) -> Routed:
        """Yield what each bucket gets of a document that has no end, after the last block."""
        yield from ()

    def close(self) -> None:
        """Drop what waits."""


@dataclass(frozen=True)
class LastShare(Route):
    """All that is in the last sources goes to validation: from this one on, before which a document ends."""

    source: int

    def buckets(self, block: IdBlock, at: Start) -> Routed:
        """Yield the block."""
        yield "validation" if at.source >= self.source else "train", block, at.id


@dataclass(frozen=True)
class Shuffled(Route):
    """Documents go to `2 ** bits` buckets by their sort keys; what they get are ids and entries.

    held_out: the source from which on documents go to as many other buckets; 0: there are none.
    """

    seed: int
    id_bytes: int
    bits: int
    held_out: int

    def buckets(self, block: IdBlock, at: Start) -> Routed:
        """Yield the ids and entries of each bucket."""
        key = int.from_bytes(hashlib.sha256(f"{self.seed} 0".encode()).digest()[:8], "little")
        entries = _core.entries_of(len(block.ids), block.ends, at.id, key, at.document)
        others = 1 << self.bits if 0 < self.held_out <= at.source else 0
        for bucket, part in dealt(IdBlock(block.ids, entries), self.id_bytes, 0, self.bits):
            yield bucket_name(others + bucket), part, 0


def bucket_name(bucket: int) -> str:
    """Return the name of a bucket that will be sorted."""
    return f"bucket-{bucket:03d}"


def dealt(block: IdBlock, id_bytes: int, skip: int, bits: int) -> Iterator[tuple[int, IdBlock]]:
    """Yield the ids and entries of each bucket that gets some. block: with entries; skip: leading bits of the keys."""
    ids, entries, sizes = _core.deal(block.ids, block.ends, id_bytes, skip, bits)
    ids = ids.cast(ID_CODES[id_bytes])
    word = id_ = 0
    for bucket, (count, size) in enumerate(zip(sizes[::2], sizes[1::2], strict=True)):
        if count:
            yield bucket, IdBlock(ids[id_ : id_ + size], entries[word : word + 2 * count])
        word, id_ = word + 2 * count, id_ + size


class HeldOut(Route):
    """Documents go, when they have ended, to training or to validation.

    below: the hashes that are below it are validation's; directory: where a large document waits. Equal documents are
    on one side, and stay there when the corpus grows.
    """

    waits = True

    def __init__(self, below: int, id_bytes: int, directory: Path) -> None:
        self._below, self._id_bytes, self._state = below, id_bytes, 0
        self._begun = SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(directory))  # noqa: SIM115 - a document without its end

    def buckets(self, block: IdBlock, at: Start) -> Routed:
        """Yield the documents that end in the block."""
        (ids, ends), first = block, at.id
        hashes, self._state = _core.hash_documents(ids, ends, self._id_bytes, first, self._state)
        done = start = 0
        for below, documents in groupby(map(self._below.__gt__, hashes)):
            upto = done + sum(1 for _ in documents)
            stop = ends[upto - 1] - first
            yield from self._passed_on(below, IdBlock(ids[start:stop], ends[done:upto]), first + start)
            done, start = upto, stop
        self._begun.write(ids[start:])

    def _passed_on(self, below: bool, block: IdBlock, first: int) -> Routed:
        bucket = "validation" if below else "train"
        if self._begun.tell():
            self._begun.seek(0)
            while data := self._begun.read(BLOCK_IDS * self._id_bytes):
                yield bucket, IdBlock(memoryview(data).cast(ID_CODES[self._id_bytes]), NO_ENDS), 0
            self._begun.seek(0)
            self._begun.truncate()
        yield bucket, block, first

    def end(self) -> Routed:
        """Yield a document that has no end."""
        if ids := self._begun.tell() // self._id_bytes:
            [hash_] = _core.hash_documents(b"", array("Q", [ids]), self._id_bytes, ids, self._state)[0]
            yield from self._passed_on(hash_ < self._below, IdBlock(NO_ENDS[:0], NO_ENDS), 0)

    def close(self) -> None:
        """Drop a document that has not ended."""
        self._begun.close()


def hash_held_out(options: Mapping[str, Any]) -> int:
    """Return the hash below which documents are validation's: those of a share."""
    return int(Fraction(str(options["val_fraction"] or 0)) * _ALL)


def bits_of(corpus_bytes: int, sets: int) -> int:
    """Return how many bits of the keys name the buckets of a corpus of that many bytes. sets: of buckets, 1 or 2."""
    return min(max(corpus_bytes // _BUCKET_BYTES, 1).bit_length(), _MOST_BITS - sets + 1)


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
    elif task.skip + _AGAIN_BITS > 64 or _have_one_key(task):
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
            for number, part in dealt(block, files.id_bytes, task.skip, _AGAIN_BITS):
                if number not in buckets:
                    smaller = BucketFiles(files.directory, f"{files.name}-{number:03d}", files.id_bytes)
                    buckets[number] = OpenBucket(smaller)
                buckets[number].append(*part)
    finally:
        for bucket in buckets.values():
            bucket.close()
    skip, memory_bytes = task.skip + _AGAIN_BITS, task.memory_bytes
    return [SortTask(bucket.files, bucket.extent, skip, memory_bytes) for _, bucket in sorted(buckets.items())]
