"""Writing one shard from parts, or checking one: what a worker process does, without making Python numbers of ids."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.executors.worker import report_progress
from pipeline.shards.formats import shard_format
from pipeline.shards.formats.shard_format import IDS, Block, Layout, Rows, ShardFacts
from pipeline.shards.manifest import checksum
from pipeline.shards.packing import Packed, Packing
from pipeline.shards.sources import Slice, Source, documents_in
from pipeline.storage import Location, unreadable
from pipeline.storage.atomic import whole_file

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShardTask:
    """One shard for a worker. offsets: its second file, if any; parts: source and slice of each.

    tokens: of the documents; packing: how they become rows, if they do; dropped: tokens left out after the shard.
    """

    directory: Location
    name: str
    offsets: str | None
    format: str
    layout: Layout
    tokens: int
    parts: tuple[tuple[Source, Slice], ...]
    packing: Packing | None = None
    dropped: int = 0
    split: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of its files."""
        return [self.name] if self.offsets is None else [self.name, self.offsets]

    def __str__(self) -> str:
        return f"shard {self.directory / self.name}"


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


def write_shard(task: ShardTask) -> ShardFacts:
    """Write a shard, and its second file before it; a file that is there with the same bytes is kept."""
    format_, documents = shard_format(task.format), 0

    def blocks() -> Iterator[Block]:
        nonlocal documents
        for ids, ends in documents_in(task.parts, report_progress):
            documents += len(ends)
            yield ids, ends

    packed = None if task.packing is None else Packed(task.packing, task.layout)
    rows = (Rows({IDS: ids}, ends) for ids, ends in blocks()) if packed is None else packed.rows(blocks())
    with contextlib.ExitStack() as files:  # it leaves the last one first
        path = files.enter_context(whole_file(task.directory / task.name, keep_same=True))
        second = (
            files.enter_context(whole_file(task.directory / task.offsets, keep_same=True)) if task.offsets else None
        )
        written = format_.write(path, second, task.layout, rows)
        tokens, (size, crc32) = packed.tokens if packed else task.tokens, checksum(path)
        second_size, second_crc32 = checksum(second) if second else (None, None)
        facts = ShardFacts(
            *(task.name, tokens, documents, size, crc32, task.offsets, second_size, second_crc32),
            rows=written if packed or (format_.rows and written != documents) else None,
            padded=packed.padded if packed else None,
            truncated=packed.truncated if packed else None,
            dropped=task.dropped if packed else None,
            split=task.split,
        )
    _log.info("%s: %d ids, %d documents", task, facts.tokens, facts.documents)
    return facts
