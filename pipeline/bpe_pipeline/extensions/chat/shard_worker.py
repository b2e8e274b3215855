"""Writing one shard of chat data from parts: what a worker process does. Values are bytes, and never Python numbers."""

import contextlib
import logging
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.extensions.chat.encoder import ID_BYTES
from bpe_pipeline.shards.chunk_file import PartReader, StoredIds, open_part
from bpe_pipeline.shards.encode_worker import unload
from bpe_pipeline.shards.finish import facts_of_files
from bpe_pipeline.shards.formats.shard_format import IDS, Layout, Rows, ShardFacts, ShardFormat
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import whole_file

_log = logging.getLogger(__name__)
LABELS, MASK, POSITIONS, NEAT = "labels", "attention_mask", "position_ids", "neat"
MAKING_BYTES = 4 * ID_BYTES  # of each token of a row: its value, id and label, and what they are made with
_IGNORED, _MASK = pa.scalar(-100, pa.int32()), pa.scalar((1 << 31) - 1, pa.int32())
_ROWS_AT_ONCE, _TOKENS_AT_ONCE, _OPEN_PARTS = 64, 1 << 20, 128


@dataclass(frozen=True)
class ShardFile:
    """The file of a shard, and its second one. offsets: the name of that."""

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
            facts = facts_of(self.format.write(path, second, self.layout, rows))
            made = ShardFacts(name=self.name, offsets=self.offsets, **facts_of_files(path, second), **facts)
        _log.info("%s: %d ids, %d documents", self, made.tokens, made.documents)
        return made


@dataclass(frozen=True)
class ShardOfRows:
    """Names a shard and its rows.

    rows: their numbers, uint64; ends: where the rows of the shard end among them; pack: how they are packed, if they
    are. pad: the bytes of the id that fills packed rows. parts: each with the number of its first row. longest: tokens
    of the longest row of all shards; each packed row has that many.
    """

    file: ShardFile
    pack: str | None
    pad: bytes
    rows: bytes
    ends: bytes
    parts: tuple[tuple[StoredIds, int], ...]
    longest: int

    @property
    def at_once(self) -> int:
        """Most rows, and blocks of rows, in memory at the same time."""
        return max(1, min(_ROWS_AT_ONCE, _TOKENS_AT_ONCE // max(self.longest, 1)))

    @property
    def conversations(self) -> int:
        """Number of conversations in the shard."""
        return len(self.rows) // 8

    def __str__(self) -> str:
        return str(self.file)


def write_shard(task: ShardOfRows) -> ShardFacts:
    """Write a shard, unless it is there with the same bytes. Raises `RunDirectoryError` for a damaged part."""
    tokens = trained = 0
    with contextlib.ExitStack() as open_parts:
        stored = _StoredRows(task.parts, open_parts, task.at_once)

        def rows() -> Iterator[Rows]:
            nonlocal tokens, trained
            for block, trained_on in _rows(task, stored):
                tokens, trained = block.ends[-1], trained + trained_on
                yield block

        def facts(count: int) -> dict[str, Any]:
            packed = {} if task.pack is None else {"rows": count, "padded": tokens - stored.tokens}
            return {"tokens": tokens, "documents": task.conversations, "trained_on": trained, **packed}

        return task.file.write(rows(), facts)


class _StoredRows:
    """Reads the rows in parts by number. A few parts are open at a time, and a few blocks in memory.

    tokens: of all rows that were read.
    """

    def __init__(self, parts: tuple[tuple[StoredIds, int], ...], open_parts: contextlib.ExitStack, blocks: int) -> None:
        self._parts, self._stack, self.tokens = parts, open_parts, 0
        self._firsts = [first for _, first in parts]
        self._open: dict[int, PartReader] = {}
        self._block = lru_cache(blocks)(lambda part, number: self._reader(part).block(number))

    def __getitem__(self, row: int) -> bytes:
        part = bisect_right(self._firsts, row) - 1
        numbers, row = self._reader(part).block_documents, row - self._firsts[part]
        block = bisect_right(numbers, row) - 1
        (values, ends), at = self._block(part, block), row - numbers[block]
        start, stop = ends[at - 1] if at else 0, ends[at]
        self.tokens += stop - start
        return bytes(values[start:stop])

    def _reader(self, part: int) -> PartReader:
        if part not in self._open:
            if len(self._open) == _OPEN_PARTS:
                self._stack.close()
                self._open.clear()
            self._open[part] = self._stack.enter_context(open_part(self._parts[part][0]))
        return self._open[part]


def _rows(task: ShardOfRows, stored: _StoredRows) -> Iterator[tuple[Rows, int]]:
    """Yield the rows of the shard, a few at a time, with how many tokens are trained on, and report progress."""
    rows, ends, first, total = array("Q", task.rows), array("Q", task.ends), 0, 0
    for start in range(0, len(ends), task.at_once):
        stops = ends[start : start + task.at_once]
        bags = [[stored[row] for row in rows[low:high]] for low, high in pairwise([first, *stops])]
        sizes = [task.longest if task.pack else sum(map(len, bag)) // ID_BYTES for bag in bags]
        row_ends = array("Q", list(accumulate(sizes, initial=total))[1:])
        columns, trained = _columns(task, bags)
        yield Rows({name: columns[name] for name in task.file.layout.columns}, row_ends), trained
        report_progress(stops[-1] - first)
        first, total = stops[-1], row_ends[-1]


def _columns(task: ShardOfRows, bags: list[list[bytes]]) -> tuple[dict[str, bytes], int]:
    """Return the columns of rows, of one conversation each or of those that are packed, and the tokens trained on."""
    values, masks, positions = [], [], []
    for bag in bags:
        lengths = [len(row) // ID_BYTES for row in bag]
        filled = task.longest - sum(lengths) if task.pack else 0
        values += [*bag, task.pad * filled]
        positions += [*map(_positions, lengths), bytes(ID_BYTES * filled)]
        if task.pack == NEAT:
            masks += [number.to_bytes(ID_BYTES, "little") * length for number, length in enumerate(lengths, 1)]
            masks.append(bytes(ID_BYTES * filled))
        else:
            masks.append(b"\1" * (sum(lengths) + filled))
    buffer = pa.py_buffer(b"".join(values))
    ids = pa.Array.from_buffers(pa.int32(), buffer.size // ID_BYTES, [None, buffer])
    trained = pc.less(ids, 0)
    ids = pc.bit_wise_and(ids, _MASK)
    labels = pc.if_else(trained, ids, _IGNORED)
    columns = {IDS: _bytes_of(ids), LABELS: _bytes_of(labels), MASK: b"".join(masks), POSITIONS: b"".join(positions)}
    return columns, pc.sum(trained).as_py() or 0


def _bytes_of(column: Any) -> bytes:
    """Return the int32 of a column, which has no nulls."""
    return bytes(memoryview(column.buffers()[1])[ID_BYTES * column.offset :][: ID_BYTES * len(column)])


@lru_cache(256)
def _positions(length: int) -> bytes:
    return array("i", range(length)).tobytes()
