"""Finishing shards: a closed bucket becomes a shard, and shards are checked. What a worker process does.

A finished shard, and its second file, are hidden files until all are finished, named by split and index, since a
shard's own name may say how many there are.
"""

import logging
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import sub
from pathlib import Path
from typing import Any

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.shards.bucket import REMEDY, BucketFiles
from bpe_pipeline.shards.encode_worker import unload
from bpe_pipeline.shards.encoded_corpus import checksum
from bpe_pipeline.shards.formats.shard_format import Layout, ShardFacts, ShardFormat
from bpe_pipeline.shards.packing import DocumentRows, LongRow, PackedRows, ShardRows
from bpe_pipeline.shards.writer import ClosedShard
from bpe_pipeline.storage import Location, unreadable

_log = logging.getLogger(__name__)
MOST_ROW = 1 << 26  # ids, as of rows that are packed
_ENDS_AT_ONCE, _SHORT = 1 << 10, 1 << 19  # ids of a document that takes less memory than a group of rows


@dataclass(frozen=True)
class ShardPlace:
    """The shards of an encoding. most: ids of one; directory: where they are made."""

    format: ShardFormat
    rows: ShardRows
    most: int
    splits: Sequence[str]
    directory: Path

    @property
    def layout(self) -> Layout:
        """What the rows have."""
        return self.rows.layout

    @property
    def in_place(self) -> bool:
        """Whether ids are the shard, once it has its header; otherwise the shard is written from them."""
        if self.format.header(self.layout, 0) is None:
            return False
        if isinstance(self.rows, DocumentRows):
            return True
        packed = isinstance(self.rows, PackedRows) and self.rows.packing == "concat"
        return not self.format.rows and packed and len(self.layout.columns) == 1

    @property
    def most_row(self) -> int | None:
        """Most ids of a row that is a document, where the format gathers rows."""
        gathers = self.layout.documents and self.format.memory_bytes(self.layout) is not None
        return MOST_ROW if gathers else None

    def bucket(self, split: str, index: int) -> BucketFiles:
        """Return the files of a shard that is not finished."""
        header = self.format.header(self.layout, self.most) if self.in_place else b""
        with_numbers = not self.in_place or self.format.ends_with_row(self.layout) or not self.layout.documents
        return BucketFiles(self.directory, f"{split}-{index:05d}", self.layout.id_bytes, header or b"", with_numbers)

    def finished(self, split: str, index: int) -> tuple[Path, Path | None]:
        """Return where a finished shard, and its second file, are until all are finished."""
        bucket, (_, second) = self.bucket(split, index), self.format.names("", self.layout)
        whole = bucket.ids if self.in_place else bucket.ids.with_suffix(".shard")
        return whole, None if second is None else bucket.ids.with_suffix(".second")

    def seal(self, split: str, closed: ClosedShard) -> ShardFacts | None:
        """Finish a closed shard and return its facts, if its ids are the shard; otherwise cut its files to size.

        Again it makes the same.
        """
        bucket = self.bucket(split, closed.index)
        with os_error_as(RunDirectoryError, f"{bucket.ids} cannot be written", REMEDY):
            if not self.in_place:
                bucket.cut(closed.ids, closed.documents)
                return None
            whole, second = self.finished(split, closed.index)
            with whole.open("r+b") as file:
                file.truncate(len(bucket.header) + closed.ids * bucket.id_bytes)
                count = self.format.complete(file, second, self.layout, bucket.number_blocks(closed.documents))
            same_header = self.format.header(self.layout, closed.ids) == bucket.header
            facts = {"tokens": closed.ids, "documents": closed.documents, **self._rows_of(closed, count)}
            return self._facts(split, closed.index, facts, closed.crc32 if same_header else None)

    def _rows_of(self, closed: ClosedShard, rows: int) -> dict[str, Any]:
        if not self.layout.documents:
            return {"rows": rows, "padded": 0, "truncated": 0, "dropped": 0}
        return {"rows": rows if self.format.rows and rows != closed.documents else None}

    def finish(self, split: str, index: int) -> ShardFacts:
        """Make a shard of its bucket, whose size says what it has; returns its facts. Again it makes the same."""
        bucket = self.bucket(split, index)
        whole, second = self.finished(split, index)
        with os_error_as(RunDirectoryError, f"{whole} cannot be written", REMEDY):
            ids, documents = bucket.size()
            rows, facts_of = self.rows.made(self.format, bucket, ids, documents)
            count = self.format.write(whole, second, self.layout, rows)
            facts = self._facts(split, index, {"tokens": ids, "documents": documents, **facts_of(count)})
            system.flush(self.directory)  # its name is on disk before the bucket is gone
        return facts

    def _facts(self, split: str, index: int, facts: dict[str, Any], crc32: int | None = None) -> ShardFacts:
        """Return the facts of a shard, without its name, when it is on disk. crc32: of it, if it is known."""
        whole, second = self.finished(split, index)
        for path in filter(None, (whole, second)):
            system.flush(path)
        facts |= facts_of_files(whole, second, crc32) | {"split": None if split == "train" else split}
        return ShardFacts(name="", **facts)

    def long_row(self, split: str, index: int) -> LongRow:
        """Return the longest row of a closed shard."""
        bucket = self.bucket(split, index)
        ids, documents = bucket.size()
        gathers = self.most_row is not None
        document = longest_document(bucket.number_blocks(documents, _ENDS_AT_ONCE), ids) if gathers else 0
        return self.rows.longest(ids, documents, document)


def facts_of_files(whole: Path, second: Path | None, crc32: int | None = None) -> dict[str, Any]:
    """Return the sizes and checksums of a shard and of its second file. crc32: of the shard, if it is known."""
    size, digits = (whole.stat().st_size, f"{crc32:08x}") if crc32 is not None else checksum(whole)
    second_size, second_digits = checksum(second) if second else (None, None)
    return {"bytes": size, "crc32": digits, "offsets_bytes": second_size, "offsets_crc32": second_digits}


def longest_document(ends: "Iterable[array[int]]", ids: int) -> int:
    """Return the ids of the longest document, or fewer than `_SHORT` if all are short. ids: of all.

    Where many short ones end, they are not looked at one by one.
    """
    longest = last = 0
    for block in ends:
        longest = max(longest, block[0] - last)
        if block[-1] - block[0] > max(longest, _SHORT):
            longest = max(longest, *map(sub, block[1:], block))
        last = block[-1]
    return max(longest, ids - last)


@dataclass(frozen=True)
class FinishTask:
    """A closed shard for a worker."""

    place: ShardPlace
    split: str
    index: int

    def __str__(self) -> str:
        return f"shard {self.place.finished(self.split, self.index)[0]}"

    __repr__ = __str__


def finish_shard(task: FinishTask) -> ShardFacts:
    """Finish a shard."""
    unload()
    facts = task.place.finish(task.split, task.index)
    report_progress(facts.tokens)
    _log.info("%s: %d ids, %d documents", task, facts.tokens, facts.documents)
    return facts


@dataclass(frozen=True)
class CheckTask:
    """A file of a finished directory to be read by a worker: the bytes and the CRC-32 that it had."""

    path: Location
    bytes: int
    crc32: str

    def __str__(self) -> str:
        return f"checking {self.path}"


def is_intact(task: CheckTask) -> bool:
    """Return whether a file is what was written."""
    try:
        return checksum(task.path, report_progress) == (task.bytes, task.crc32)
    except OSError as error:
        raise unreadable(task.path, error) from None
