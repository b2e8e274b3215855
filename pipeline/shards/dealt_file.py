"""Dealt files: the documents of one part, grouped by bucket; deleted when all shards are written.

A dealt file is runs, each of the entries of all buckets (key; number of ids and whether the document ends), the ids of
all buckets, and a table that says where each bucket is in both, with checksums; then a footer as parts have. A bucket
is read from the dealt files of all parts and sorted in memory; one that is too large for that is read document by
document.
"""

import contextlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import IO

from pipeline import _core
from pipeline.base.errors import RunDirectoryError
from pipeline.shards.formats.shard_format import ID_CODES, Block
from pipeline.shards.part_file import PartReader, Slice, StoredPart, damaged, footer_bytes, open_footer, open_part
from pipeline.storage import Location, OpenFile

_ENDED = 1 << 63
_ENTRY_BYTES, _ROW_BYTES = 16, 32  # a row of the table: entries, ids, and their checksums
_IN_MEMORY = 4  # a bucket takes this many times its bytes


class DealtWriter:
    """Writes one dealt file to an open file."""

    def __init__(self, file: IO[bytes], id_bytes: int, buckets: int) -> None:
        self._file, self._id_bytes, self._at = file, id_bytes, 0
        self._runs: list[tuple[int, int, int]] = []  # where entries, ids and the table start
        self._ids = array("Q", bytes(8 * buckets))

    def add(self, words: memoryview, ids: memoryview, sizes: memoryview) -> None:
        """Write a run, as `Dealer.take` returns it."""
        words, ids = words.cast("B"), ids.cast("B")
        rows, word, id_ = array("Q"), 0, 0
        for bucket in range(len(self._ids)):
            entries, count = sizes[2 * bucket : 2 * bucket + 2]
            next_word, next_id = word + entries * _ENTRY_BYTES, id_ + count * self._id_bytes
            checksums = _core.hash64(words[word:next_word]), _core.hash64(ids[id_:next_id])
            rows.extend((word, id_, *checksums))
            self._ids[bucket] += count
            word, id_ = next_word, next_id
        rows.extend((word, id_, 0, 0))
        starts = self._at, self._at + len(words), self._at + len(words) + len(ids)
        self._runs.append(starts)
        for data in (words, ids, rows):
            self._file.write(data)
        self._at = starts[2] + len(rows) * rows.itemsize

    def finish(self, fingerprint: str) -> "array[int]":
        """Write the footer; returns the number of ids in each bucket."""
        footer = {"fingerprint": fingerprint, "id_bytes": self._id_bytes, "runs": self._runs}
        self._file.write(footer_bytes({**footer, "ids": self._ids.tolist()}))
        return self._ids


def dealt_ids(where: Location, fingerprint: str) -> "array[int] | None":
    """Return the number of ids in each bucket; None if there is no such file, or not one of this fingerprint."""
    try:
        with open_footer(where, fingerprint) as (_, footer):
            return array("Q", footer["ids"])
    except (FileNotFoundError, RunDirectoryError):
        return None


@dataclass(frozen=True)
class Bucket:
    """One bucket of dealt files, in the order of the corpus. memory_bytes: for reading it."""

    files: tuple[StoredPart, ...]
    index: int
    id_bytes: int
    memory_bytes: int


Source = StoredPart | Bucket
"""Where ids in the order of the shards are."""


def open_source(source: Source) -> "contextlib.AbstractContextManager[BucketReader | PartReader]":
    """Open a part or a bucket; raises `RunDirectoryError` if it is damaged or of something else."""
    return open_bucket(source) if isinstance(source, Bucket) else open_part(*source)


@dataclass(frozen=True)
class _Run:
    """The ids of a bucket in one run of a file."""

    where: Location
    file: OpenFile
    start: int
    size: int
    checksum: int

    def ids(self) -> bytes:
        data = self.file.read_at(self.start, self.size)
        if len(data) != self.size or _core.hash64(data) != self.checksum:
            raise damaged(self.where, "its ids are not as they were written")
        return data


@contextlib.contextmanager
def open_bucket(bucket: Bucket) -> Iterator["BucketReader"]:
    """Open a bucket; raises `RunDirectoryError` if a dealt file is damaged or of something else."""
    with contextlib.ExitStack() as files:
        words: list[bytes] = []
        runs: list[_Run] = []
        for where, fingerprint in bucket.files:
            file, footer = files.enter_context(open_footer(where, fingerprint))
            for entries_at, ids_at, table_at in footer["runs"]:
                row = array("Q", file.read_at(table_at + bucket.index * _ROW_BYTES, 2 * _ROW_BYTES))
                if len(row) != 8 or row[4] < row[0] or row[5] < row[1]:
                    raise damaged(where, "a table of it is not as it was written")
                entries = file.read_at(entries_at + row[0], row[4] - row[0])
                if len(entries) != row[4] - row[0] or _core.hash64(entries) != row[2]:
                    raise damaged(where, "a bucket of it is not as it was written")
                if entries:
                    words.append(entries)
                    runs.append(_Run(where, file, ids_at + row[1], row[5] - row[1], row[3]))
        yield BucketReader(bucket, words, runs)


class BucketReader:
    """Reads an open bucket as a part is read."""

    def __init__(self, bucket: Bucket, words: Sequence[bytes], runs: Sequence[_Run]) -> None:
        self._id_bytes, self._memory_bytes = bucket.id_bytes, bucket.memory_bytes
        self._counts, self._runs, self._words = [len(own) // _ENTRY_BYTES for own in words], runs, b"".join(words)

    def blocks(self, of: Slice) -> Iterator[Block]:
        """Yield the ids of a slice, and where documents end in it."""
        first, least = 0, of.start if of.with_start else of.start + 1
        for ids, ends in self._sorted(of.start):
            low, high = min(max(of.start - first, 0), len(ids)), min(of.stop - first, len(ids))
            if first > of.stop:
                break
            yield ids[low:high], ends[bisect_left(ends, least) : bisect_right(ends, of.stop)]
            first += len(ids)

    def last_end(self, stop: int) -> int | None:
        """Return the last position up to `stop` where a document ends, or None."""
        sizes, found, at = array("Q", self._words)[1::2], None, 0
        for entry in _core.order_of(self._words):
            at += sizes[entry] & ~_ENDED
            if at > stop:
                break
            found = at if sizes[entry] & _ENDED else found
        return found

    def _sorted(self, start: int) -> Iterator[Block]:
        """Yield all documents in order; of a bucket that is too large for memory, without the ids before `start`."""
        if sum(run.size for run in self._runs) * _IN_MEMORY <= self._memory_bytes:
            ids, ends = _core.in_order(self._words, [run.ids() for run in self._runs], self._id_bytes)
            yield ids, array("Q", ends)
            return
        sizes = array("Q", self._words)[1::2]
        run_of = array("I", (run for run, count in enumerate(self._counts) for _ in range(count)))
        before = array("Q", accumulate((size & ~_ENDED for size in sizes), initial=0))  # ids of all runs
        firsts = list(accumulate((run.size // self._id_bytes for run in self._runs), initial=0))
        loaded, data, at = -1, memoryview(b""), 0
        for entry in _core.order_of(self._words):
            size, run = sizes[entry] & ~_ENDED, run_of[entry]
            own = memoryview(bytes(size * self._id_bytes)) if at + size < start else None
            if own is None:
                if run != loaded:
                    loaded, data = run, memoryview(self._runs[run].ids())
                low = (before[entry] - firsts[run]) * self._id_bytes
                own = data[low : low + size * self._id_bytes]
            at += size
            yield own.cast(ID_CODES[self._id_bytes]), array("Q", [at] if sizes[entry] & _ENDED else [])
