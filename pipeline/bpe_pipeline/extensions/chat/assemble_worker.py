"""Writing one shard of chat data from parts: what a worker process does. Rows are bytes, and never Python numbers."""

import contextlib
import logging
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.extensions.chat.encoder import ID_BYTES, IGNORED, Row
from bpe_pipeline.shards.chunk_file import PartReader, StoredIds, open_part
from bpe_pipeline.shards.finish import ShardFile
from bpe_pipeline.shards.formats.shard_format import Rows, ShardFacts

_log = logging.getLogger(__name__)
_ROWS_AT_ONCE, _TOKENS_AT_ONCE, _OPEN_PARTS = 64, 1 << 20, 128
MAKING_BYTES = 4 * ID_BYTES  # of each token of a row: ids and labels, as they are stored and as they are read
NEAT, POSITIONS = "neat", "position_ids"


@dataclass(frozen=True)
class AssemblyTask:
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


def write_rows(task: AssemblyTask) -> ShardFacts:
    """Write a shard, unless it is there with the same bytes. Raises `RunDirectoryError` for a damaged part."""
    tokens = trained = 0
    with contextlib.ExitStack() as open_parts:
        stored = StoredRows(task.parts, open_parts, task.at_once)

        def rows() -> Iterator[Rows]:
            nonlocal tokens, trained
            for block in _rows(task, stored):
                labels = array("i", bytes(block.columns["labels"]))
                tokens, trained = block.ends[-1], trained + len(labels) - labels.count(-100)
                yield block

        def facts(count: int) -> dict[str, Any]:
            packed = {} if task.pack is None else {"rows": count, "padded": tokens - stored.tokens}
            return {"tokens": tokens, "documents": task.conversations, "trained_on": trained, **packed}

        return task.file.write(rows(), facts)


class StoredRows:
    """Reads the rows in parts by number. A few parts are open at a time, and a few blocks in memory.

    tokens: of all rows that were read.
    """

    def __init__(self, parts: tuple[tuple[StoredIds, int], ...], open_parts: contextlib.ExitStack, blocks: int) -> None:
        self._parts, self._stack, self.tokens = parts, open_parts, 0
        self._firsts = [first for _, first in parts]
        self._open: dict[int, PartReader] = {}
        self._block = lru_cache(blocks)(lambda part, number: self._reader(part).block(number))

    def __getitem__(self, row: int) -> Row:
        part = bisect_right(self._firsts, row) - 1
        numbers, row = self._reader(part).block_documents, row - self._firsts[part]
        block = bisect_right(numbers, row) - 1
        (values, ends), at = self._block(part, block), row - numbers[block]
        start, stop = ends[at - 1] if at else 0, ends[at]
        middle = (start + stop) // 2
        self.tokens += middle - start
        return bytes(values[start:middle]), bytes(values[middle:stop])

    def _reader(self, part: int) -> PartReader:
        if part not in self._open:
            if len(self._open) == _OPEN_PARTS:
                self._stack.close()
                self._open.clear()
            self._open[part] = self._stack.enter_context(open_part(self._parts[part][0]))
        return self._open[part]


def _rows(task: AssemblyTask, stored: StoredRows) -> Iterator[Rows]:
    """Yield the rows of the shard, a few at a time, and report progress."""
    rows, ends, first, total = array("Q", task.rows), array("Q", task.ends), 0, 0
    for start in range(0, len(ends), task.at_once):
        stops = ends[start : start + task.at_once]
        bags = [[stored[row] for row in rows[low:high]] for low, high in pairwise([first, *stops])]
        columns_of = [_columns(task, bag) for bag in bags]
        sizes = (len(columns["input_ids"]) // ID_BYTES for columns in columns_of)
        row_ends = array("Q", list(accumulate(sizes, initial=total))[1:])
        yield Rows(
            {name: b"".join(columns[name] for columns in columns_of) for name in task.file.layout.columns}, row_ends
        )
        report_progress(stops[-1] - first)
        first, total = stops[-1], row_ends[-1]


def _columns(task: AssemblyTask, bag: list[Row]) -> dict[str, bytes]:
    """Return the columns of a row: of one conversation, or of those that are packed into it."""
    ids, labels = (b"".join(column) for column in zip(*bag, strict=True))
    lengths = [len(ids_of) // ID_BYTES for ids_of, _ in bag]
    if task.pack is None:
        return {"input_ids": ids, "labels": labels, "attention_mask": b"\1" * sum(lengths)}
    filled = task.longest - sum(lengths)
    mask = b"\1" * task.longest
    if task.pack == NEAT:
        numbers = ((number).to_bytes(ID_BYTES, "little") * length for number, length in enumerate(lengths, 1))
        mask = b"".join(numbers) + bytes(ID_BYTES * filled)
    return {
        "input_ids": ids + task.pad * filled,
        "labels": labels + IGNORED * filled,
        "attention_mask": mask,
        POSITIONS: b"".join(map(_positions, lengths)) + bytes(ID_BYTES * filled),
    }


@lru_cache(256)
def _positions(length: int) -> bytes:
    return array("i", range(length)).tobytes()
