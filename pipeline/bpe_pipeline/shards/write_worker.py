"""Writing one shard from parts, or checking one: what a worker process does, without making Python numbers of ids.

Its rows are the documents, or rows of a fixed number of tokens that are packed here.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.shards.encode_worker import unload
from bpe_pipeline.shards.encoded_corpus import checksum
from bpe_pipeline.shards.formats.shard_format import Layout, Rows, ShardFacts, ShardFormat
from bpe_pipeline.shards.ids_in_order import Slice, Source, documents_in
from bpe_pipeline.shards.packing import DocumentRows, PackedRows, rows_and_facts
from bpe_pipeline.storage import Location, unreadable
from bpe_pipeline.storage.atomic import whole_file

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShardFile:
    """A shard to write. offsets: the name of its second file, if any."""

    directory: Location
    name: str
    offsets: str | None
    format: ShardFormat
    layout: Layout

    @property
    def names(self) -> list[str]:
        """The names of its files."""
        return [self.name] if self.offsets is None else [self.name, self.offsets]

    def __str__(self) -> str:
        return f"shard {self.directory / self.name}"

    def write(self, rows: Iterable[Rows], facts_of: Callable[[int], dict[str, Any]]) -> ShardFacts:
        """Write it, and its second file before it; a file that is there with the same bytes is kept.

        facts_of: returns what is known of the documents when that number of rows is written.
        """
        unload()
        with contextlib.ExitStack() as files:  # it leaves the last one first
            paths = [
                files.enter_context(whole_file(self.directory / name, keep_same=True, sync_directory=False))
                for name in self.names
            ]
            path, second = paths[0], paths[1] if self.offsets else None
            count = self.format.write(path, second, self.layout, rows)
            size, crc32 = checksum(path)
            second_size, second_crc32 = checksum(second) if second else (None, None)
            facts = ShardFacts(
                name=self.name,
                bytes=size,
                crc32=crc32,
                offsets=self.offsets,
                offsets_bytes=second_size,
                offsets_crc32=second_crc32,
                **facts_of(count),
            )
        _log.info("%s: %d ids, %d documents", self, facts.tokens, facts.documents)
        return facts


@dataclass(frozen=True)
class ShardTask:
    """One shard for a worker. parts: source and slice of each.

    tokens: of the documents; rows: what they become; dropped: tokens left out after the shard.
    """

    file: ShardFile
    tokens: int
    parts: tuple[tuple[Source, Slice], ...]
    rows: DocumentRows | PackedRows
    dropped: int = 0
    split: str | None = None

    def __str__(self) -> str:
        return str(self.file)


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
    """Write a shard from parts."""
    blocks = documents_in(task.parts, report_progress)
    return task.file.write(*rows_and_facts(task.file.format, task.rows, blocks, task.tokens, task.dropped, task.split))
