"""Shards in the order of the corpus: where their files are while they are begun, and how one is finished."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.shards.begun_shard import REMEDY, BegunFiles, ClosedShard
from bpe_pipeline.shards.encoded_corpus import checksum
from bpe_pipeline.shards.formats.shard_format import Layout, ShardFacts, ShardFormat
from bpe_pipeline.shards.packing import DocumentRows, PackedRows, rows_and_facts


@dataclass(frozen=True)
class OrderedShards:
    """The shards of an encoding. most: ids of one; directory: where they are made, under hidden names.

    These have the split and the index, since a shard's own name may say how many there are.
    """

    format: ShardFormat
    rows: DocumentRows | PackedRows
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
        return not self.format.rows and self.rows.packing == "concat" and len(self.layout.columns) == 1

    def begun(self, split: str, index: int) -> BegunFiles:
        """Return the begun files of a shard."""
        header = self.format.header(self.layout, self.most) if self.in_place else b""
        with_ends = not self.in_place or self.format.ends_with_row(self.layout) or not self.layout.documents
        name = f"{split}-{index:05d}"
        return BegunFiles(self.directory, name, self.layout.id_bytes, header or b"", with_ends)

    def finished(self, split: str, index: int) -> tuple[Path, Path | None]:
        """Return where a finished shard, and its second file, are until all are finished."""
        begun, (_, second) = self.begun(split, index), self.format.names("", self.layout)
        whole = begun.ids if self.in_place else begun.ids.with_suffix(".shard")
        return whole, None if second is None else begun.ids.with_suffix(".second")

    def finish(self, split: str, closed: ClosedShard) -> ShardFacts:
        """Make a shard of its begun files; returns its facts, without its name. Again it makes the same."""
        begun = self.begun(split, closed.index)
        whole, second = self.finished(split, closed.index)
        crc32 = None
        with os_error_as(RunDirectoryError, f"{whole} cannot be written", REMEDY):
            if self.in_place:
                with begun.ids.open("r+b") as file:
                    file.truncate(len(begun.header) + closed.ids * begun.id_bytes)
                    count = self.format.complete(file, second, self.layout, begun.end_blocks(closed.documents))
                if self.format.header(self.layout, closed.ids) == begun.header and closed.extent.ids == closed.ids:
                    crc32 = f"{closed.extent.ids_crc32:08x}"
                facts = self._facts(closed, count)
            else:
                blocks = begun.blocks(0, closed.ids, closed.documents)
                rows, facts_of = rows_and_facts(self.format, self.rows, blocks, closed.ids)
                facts = facts_of(self.format.write(whole, second, self.layout, rows))
            size, crc32 = (whole.stat().st_size, crc32) if crc32 else checksum(whole)
            second_size, second_crc32 = checksum(second) if second else (None, None)
            for path in filter(None, (whole, second)):
                system.flush(path)
        facts |= {"split": None if split == "train" else split}
        return ShardFacts(
            name="", bytes=size, crc32=crc32, offsets_bytes=second_size, offsets_crc32=second_crc32, **facts
        )

    def _facts(self, closed: ClosedShard, rows: int) -> dict[str, Any]:
        facts: dict[str, Any] = {"tokens": closed.ids, "documents": closed.documents}
        if not self.layout.documents:
            return {**facts, "rows": rows, "padded": 0, "truncated": 0, "dropped": 0}
        return {**facts, "rows": rows if self.format.rows and rows != closed.documents else None}

    def more_bytes(self, closed: ClosedShard) -> int:
        """Return the memory that finishing a shard takes in addition to what is enough for short rows."""
        longest = self.rows.longest(closed.ids, closed.documents, closed.longest)
        return 0 if self.in_place else longest.memory_bytes(self.format, self.layout)
