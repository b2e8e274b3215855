"""Writing one shard from parts, or checking one: what a worker process does, without making Python numbers of ids.

Its rows are the documents, or rows of a fixed number of tokens that are packed here.
"""

import contextlib
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.executors.worker import report_progress
from pipeline.shards.begun_shards import begun_path, crc32_of_both, open_begun
from pipeline.shards.encode_worker import unload
from pipeline.shards.encoded_corpus import checksum
from pipeline.shards.formats.shard_format import IDS, Block, Layout, Rows, ShardFacts, ShardFormat
from pipeline.shards.ids_file import StoredIds, damaged
from pipeline.shards.ids_in_order import ShardIds, Slice, Source, documents_in, open_part
from pipeline.shards.packing import DocumentRows, PackedRows, Packer
from pipeline.storage import Location, open_file, unreadable
from pipeline.storage.atomic import whole_file

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

    tokens: of the documents; rows: what they become; dropped: tokens left out after the shard;
    in_place: whether ids of parts may be in the shard already; checked: whether those are read again.
    """

    file: ShardFile
    tokens: int
    parts: tuple[tuple[Source, Slice], ...]
    rows: DocumentRows | PackedRows
    dropped: int = 0
    split: str | None = None
    in_place: bool = False
    checked: bool = False

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
    if task.in_place:
        return _complete(task)
    documents = 0

    def blocks() -> Iterator[Block]:
        nonlocal documents
        for ids, ends in documents_in(task.parts, report_progress):
            documents += len(ends)
            yield ids, ends

    def facts_of_documents(count: int) -> dict[str, Any]:
        rows = count if task.file.format.rows and count != documents else None
        return {"documents": documents, "split": task.split, "tokens": task.tokens, "rows": rows}

    def facts_of_rows(count: int) -> dict[str, Any]:
        counts = {"documents": documents, "tokens": packer.tokens, "rows": count, "dropped": task.dropped}
        return {**counts, **packer.cost(), "split": task.split}

    if isinstance(task.rows, DocumentRows):
        return task.file.write((Rows({IDS: ids}, ends) for ids, ends in blocks()), facts_of_documents)
    packer = Packer(task.rows)
    return task.file.write(packer.rows(blocks()), facts_of_rows)


def _complete(task: ShardTask) -> ShardFacts:
    """Complete a shard that was written in place: its header, and the ids that only parts have."""
    directory, layout = task.file.directory, task.file.layout
    header = task.file.format.header(layout, task.tokens)
    assert isinstance(directory, Path)
    assert header is not None
    where = directory / task.file.name
    kept = begun if os.path.lexists(begun := begun_path(where)) else None  # else complete, or all ids are in parts
    crc32, documents, at = zlib.crc32(header), 0, len(header)
    with contextlib.ExitStack() as files:
        path = files.enter_context(whole_file(where, keep_same=True, begun=kept, sync_directory=False))
        shard = files.enter_context(open_begun(path))
        there, size = kept or where, os.fstat(shard.fileno()).st_size
        source = files.enter_context(contextlib.closing(open_file(there))) if there.exists() else None
        shard.write(header)
        for part, of in task.parts:
            assert isinstance(part, StoredIds)
            with open_part(part) as reader:
                crc32_there, inode = reader.pieces.get(of.start, (0, 0))
                after = at + (of.stop - of.start) * layout.id_bytes
                sure = kept and not task.checked and inode == os.fstat(shard.fileno()).st_ino and after <= size
                own = None
                if reader.pieces and after > at and not sure:  # a slice without ids needs no file
                    if source is None:
                        raise damaged(part.path, f"its ids were in {there}, which is gone")
                    own = ShardIds(there, source, at - of.start * layout.id_bytes)
                for ids, ends in reader.blocks(of, own):
                    documents += len(ends)
                    if not (reader.pieces and kept):
                        shard.seek(at)
                        shard.write(ids)
                        crc32 = zlib.crc32(ids, crc32)
                        at += ids.nbytes
                if after > at:
                    crc32 = crc32_of_both(crc32, crc32_there, after - at)
                    at = after
            report_progress(of.stop - of.start)
        shard.truncate(at)
    _log.info("%s: %d ids, %d documents", task, task.tokens, documents)
    return ShardFacts(task.file.name, task.tokens, documents, at, f"{crc32:08x}", split=task.split)
