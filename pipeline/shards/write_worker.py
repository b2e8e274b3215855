"""Writing one shard from parts, or checking one: what a worker process does, without making Python numbers of ids.

Its rows are the documents, or rows of a fixed number of tokens that are packed here.
"""

import contextlib
import logging
import os
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import _core
from pipeline.executors.worker import report_progress
from pipeline.shards.begun_shards import begun_path, crc32_of_both, open_begun
from pipeline.shards.encode_worker import unload
from pipeline.shards.encoded_corpus import checksum
from pipeline.shards.formats import shard_format
from pipeline.shards.formats.ids_end_to_end import Bin
from pipeline.shards.formats.shard_format import ID_CODES, IDS, Block, Layout, Rows, ShardFacts, row_bytes
from pipeline.shards.ids_file import ShardIds, Slice, Source, StoredIds, damaged, documents_in, open_part
from pipeline.storage import Location, open_file, unreadable
from pipeline.storage.atomic import whole_file

POSITIONS, NUMBERS = "position_ids", "document_ids"
_WINDOW_TOKENS, _WINDOW_ROWS = 1 << 20, 64  # at least, packed together: what is left of a window is padding
_FREE_TOKENS = 1 << 20  # of a row, for which the memory of any worker is enough


@dataclass(frozen=True)
class Packing:
    """How documents become rows of that many tokens. pad: the id that fills rows up, if all have the same length."""

    name: str
    row_tokens: int
    pad: int
    padded: bool

    def layout(self, dtype: str, *, positions: bool) -> Layout:
        """Return what the rows have."""
        extra = {POSITIONS: "int32", NUMBERS: "int32"} if positions else {}
        return Layout({IDS: dtype, **extra}, self.row_tokens if self.padded else None, documents=False)

    @property
    def window(self) -> int:
        """How many tokens are packed together; rows depend on it only if the best fit is chosen."""
        return max(_WINDOW_TOKENS, _WINDOW_ROWS * self.row_tokens) if self.name == "best-fit" else _WINDOW_TOKENS

    def longest(self, layout: Layout, tokens: int, documents: int) -> "LongRow":
        """Return the longest row of shards that have so many tokens, of so many documents, at most."""
        row = self.row_tokens
        longest = row if self.padded and self.name != "concat" else min(row, tokens)
        if self.name == "concat" and len(layout.columns) == 1:
            return LongRow(longest)
        together = min(tokens, self.window + row)
        pieces = documents + together // row
        if self.name == "best-fit":  # at most one row is not even half full
            together = min(2 * together + row, pieces * row)
        elif self.name == "none" and self.padded:
            together = min(pieces, -(-self.window // row)) * row
        return LongRow(longest, together, layout.id_bytes)


@dataclass(frozen=True)
class LongRow:
    """The longest row of a set of shards, all of which is in memory at once.

    tokens: of the row, if its format gathers them; together: tokens of all rows that are made with it, 0 if it is read
    as it is; token_bytes: of each token that they are made of.
    """

    tokens: int
    together: int = 0
    token_bytes: int = 0

    def memory_bytes(self, format_name: str, layout: Layout) -> int:
        """Return what it takes besides the memory that is enough for short rows."""
        by_format = getattr(shard_format(format_name), "memory_bytes", lambda _: 0)(layout)
        one, made = (max(tokens - _FREE_TOKENS, 0) for tokens in (self.tokens, self.together))
        row, making = row_bytes(layout), made * self.token_bytes
        if by_format is None:
            return making + made * row
        return making + max(one, made) * row + max(one * by_format, made * row)


class Packed:
    """The rows of documents, and what they cost."""

    def __init__(self, packing: Packing, layout: Layout) -> None:
        self._packing, self._layout, self._columns = packing, layout, len(layout.columns) > 1
        self._packer = _core.Packer(
            layout.id_bytes,
            row=packing.row_tokens,
            pad=packing.pad,
            window=packing.window,
            packing=packing.name,
            padded=packing.padded and packing.name != "concat",
        )
        self.tokens = 0

    def cost(self) -> dict[str, int]:
        """Return the tokens that fill rows up, and those of documents that were left out."""
        padded, truncated, _ = self._packer.amounts()
        return {"padded": padded, "truncated": truncated}

    def rows(self, blocks: Iterator[Block]) -> Iterator[Rows]:
        """Yield the rows of the documents in these blocks."""
        if self._packing.name == "concat" and not self._columns:
            yield from self._end_to_end(blocks)
            return
        first = 0
        for ids, ends in blocks:
            self._packer.add(ids, ends, first)
            first += len(ids)
            if self._packer.ready():
                yield self._taken()
        self._packer.end()
        if self._packer.ready():
            yield self._taken()

    def _taken(self) -> Rows:
        ids, ends, positions, numbers = self._packer.take(self._columns)
        ids = ids.cast(ID_CODES[self._layout.id_bytes])
        columns = {IDS: ids, **({POSITIONS: positions, NUMBERS: numbers} if self._columns else {})}
        first, self.tokens = self.tokens, self.tokens + len(ids)
        return Rows(columns, array("Q", (first + end for end in ends)))

    def _end_to_end(self, blocks: Iterator[Block]) -> Iterator[Rows]:
        row = self._packing.row_tokens
        for ids, _ in blocks:
            before = self.tokens
            self.tokens += len(ids)
            yield Rows({IDS: ids}, array("Q", range((before // row + 1) * row, self.tokens + 1, row)))


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShardFile:
    """A shard to write. offsets: the name of its second file, if any."""

    directory: Location
    name: str
    offsets: str | None
    format: str
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
            where = (self.directory / name for name in self.names)
            paths = [files.enter_context(whole_file(one, keep_same=True, sync_directory=False)) for one in where]
            path, second = paths[0], paths[1] if self.offsets else None
            count = shard_format(self.format).write(path, second, self.layout, rows)
            size, crc32 = checksum(path)
            second_size, second_crc32 = checksum(second) if second else (None, None)
            own: dict[str, Any] = {"offsets": self.offsets, "offsets_bytes": second_size, "offsets_crc32": second_crc32}
            facts = ShardFacts(name=self.name, bytes=size, crc32=crc32, **own, **facts_of(count))
        _log.info("%s: %d ids, %d documents", self, facts.tokens, facts.documents)
        return facts


@dataclass(frozen=True)
class ShardTask:
    """One shard for a worker. parts: source and slice of each.

    tokens: of the documents; packing: how they become rows, if they do; dropped: tokens left out after the shard;
    in_place: whether ids of parts may be in the shard already; checked: whether those are read again.
    """

    file: ShardFile
    tokens: int
    parts: tuple[tuple[Source, Slice], ...]
    packing: Packing | None = None
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

    packed = None if task.packing is None else Packed(task.packing, task.file.layout)

    def facts(count: int) -> dict[str, Any]:
        own = {"documents": documents, "split": task.split}
        if packed is None:
            apart = shard_format(task.file.format).rows and count != documents
            return {**own, "tokens": task.tokens, "rows": count if apart else None}
        return {**own, "tokens": packed.tokens, "rows": count, **packed.cost(), "dropped": task.dropped}

    rows = (Rows({IDS: ids}, ends) for ids, ends in blocks()) if packed is None else packed.rows(blocks())
    return task.file.write(rows, facts)


def _complete(task: ShardTask) -> ShardFacts:
    """Complete a shard that was written in place: its header, and the ids that only parts have."""
    directory, layout, format_ = task.file.directory, task.file.layout, shard_format(task.file.format)
    assert isinstance(directory, Path)
    assert isinstance(format_, Bin)
    where, header = directory / task.file.name, format_.header(layout, task.tokens)
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
