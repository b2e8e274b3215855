"""Writing one shard from parts, or checking one: what a worker process does, without making Python numbers of ids."""

import contextlib
import logging
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.executors.worker import report_progress
from pipeline.shards.formats import shard_format
from pipeline.shards.formats.shard_format import IDS, Layout, Rows, ShardFacts
from pipeline.shards.manifest import checksum
from pipeline.shards.part_file import Slice, open_part
from pipeline.storage import Location, unreadable
from pipeline.storage.atomic import whole_file

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShardTask:
    """One shard for a worker. offsets: its second file, if any; parts: path, fingerprint and slice of each."""

    output: Location
    offsets: Location | None
    format: str
    layout: Layout
    tokens: int
    parts: tuple[tuple[Location, str, Slice], ...]

    def __str__(self) -> str:
        return f"shard {self.output}"


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
    """Write a shard, and the offsets of its documents before it; a file that is there with the same bytes is kept.

    Runs in a worker process. Raises `RunDirectoryError` for a damaged part.
    """
    with contextlib.ExitStack() as files:  # it leaves the last one first
        path = files.enter_context(whole_file(task.output, keep_same=True))
        offsets = files.enter_context(whole_file(task.offsets, keep_same=True)) if task.offsets else None
        documents = shard_format(task.format).write(path, offsets, task.layout, _rows(task))
        of_offsets = (task.offsets.name, *checksum(offsets)) if task.offsets and offsets else ()
        facts = ShardFacts(task.output.name, task.tokens, documents, *checksum(path), *of_offsets)
    _log.info("%s: %d ids, %d documents", task, task.tokens, documents)
    return facts


def _rows(task: ShardTask) -> Iterator[Rows]:
    """Yield the documents of the shard, and report progress."""
    before = 0
    for path, fingerprint, part in task.parts:
        with open_part(path, fingerprint) as reader:
            shift = before - part.start
            for ids, ends in reader.blocks(part):
                yield Rows({IDS: ids}, array("Q", (end + shift for end in ends)) if shift else ends)
                report_progress(len(ids))
        before += part.stop - part.start
