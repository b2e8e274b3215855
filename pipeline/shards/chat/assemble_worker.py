"""Writing one shard of chat data from parts: what a worker process does. Rows are bytes, and never Python numbers."""

import contextlib
import logging
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from pipeline.executors.worker import report_progress
from pipeline.shards.chat.encode import ID_BYTES, IGNORED, Row
from pipeline.shards.formats import shard_format
from pipeline.shards.formats.shard_format import Layout, Rows, ShardFacts
from pipeline.shards.manifest import checksum
from pipeline.shards.part_file import PartReader, open_part
from pipeline.storage import Location
from pipeline.storage.atomic import whole_file

_log = logging.getLogger(__name__)
_KEPT_BLOCKS, _OPEN_PARTS = 64, 128
_ROWS_AT_ONCE = 64
NEAT, POSITIONS = "neat", "position_ids"


@dataclass(frozen=True)
class AssemblyTask:
    """One shard for a worker.

    rows: their numbers, uint64; ends: where packed rows end among them, if they are packed; pack: how. pad: the bytes
    of the id that fills packed rows. parts: path, fingerprint and number of the first row of each.
    """

    name: str
    output: Location
    format: str
    layout: Layout
    pack: str
    pad: bytes
    rows: bytes
    ends: bytes | None
    parts: tuple[tuple[Location, str, int], ...]

    def __repr__(self) -> str:
        return f"shard {self.output}"


def write_rows(task: AssemblyTask) -> ShardFacts:
    """Write a shard, unless it is there with the same bytes. Raises `RunDirectoryError` for a damaged part."""
    tokens = padded = 0

    def rows(stored: "StoredRows") -> Iterator[Rows]:
        nonlocal tokens, padded
        for made, filled in _rows(task, stored):
            tokens, padded = made.ends[-1], padded + filled
            yield made

    with contextlib.ExitStack() as open_parts, whole_file(task.output, keep_same=True) as path:
        count = shard_format(task.format).write(path, None, task.layout, rows(StoredRows(task.parts, open_parts)))
        conversations = len(task.rows) // 8
        facts = ShardFacts(task.name, tokens, conversations, *checksum(path))
    _log.info("%s: %d rows, %d conversations", task, count, conversations)
    return facts if task.ends is None else replace(facts, rows=count, padded=padded)


class StoredRows:
    """The rows in parts, by number. A few parts are open at a time, and a few blocks in memory."""

    def __init__(self, parts: tuple[tuple[Location, str, int], ...], open_parts: contextlib.ExitStack) -> None:
        self._parts, self._stack = parts, open_parts
        self._firsts = [first for _, _, first in parts]
        self._open: dict[int, PartReader] = {}
        self._block = lru_cache(_KEPT_BLOCKS)(lambda part, number: self._reader(part).block(number))

    def __getitem__(self, row: int) -> Row:
        part = bisect_right(self._firsts, row) - 1
        numbers = self._reader(part).row_numbers
        local = row - self._firsts[part]
        number = bisect_right(numbers, local) - 1
        values, ends = self._block(part, number)
        place = local - numbers[number]
        start, stop = ends[place - 1] if place else 0, ends[place]
        middle = (start + stop) // 2
        return bytes(values[start:middle]), bytes(values[middle:stop])

    def _reader(self, part: int) -> PartReader:
        if part not in self._open:
            if len(self._open) == _OPEN_PARTS:
                self._stack.close()
                self._open.clear()
            where, fingerprint, _ = self._parts[part]
            self._open[part] = self._stack.enter_context(open_part(where, fingerprint))
        return self._open[part]


def _rows(task: AssemblyTask, stored: StoredRows) -> Iterator[tuple[Rows, int]]:
    """Yield the rows of the shard, a few at a time, with how many ids fill them, and report progress."""
    rows = array("Q", task.rows)
    bags = array("Q", task.ends) if task.ends is not None else range(1, len(rows) + 1)
    columns: dict[str, list[bytes]] = {name: [] for name in task.layout.columns}
    ends, start, total, filled = array("Q"), 0, 0, 0
    for number, stop in enumerate(bags, 1):
        parts = [stored[row] for row in rows[start:stop]]
        made = _columns(task, parts)
        for name, values in columns.items():
            values.append(made[name])
        length = len(made["labels"]) // ID_BYTES
        total += length
        filled += length - sum(len(part) // ID_BYTES for part, _ in parts)
        ends.append(total)
        if number % _ROWS_AT_ONCE == 0 or number == len(bags):
            yield Rows({name: b"".join(values) for name, values in columns.items()}, ends), filled
            columns, ends, filled = {name: [] for name in columns}, array("Q"), 0
        report_progress(stop - start)
        start = stop


def _columns(task: AssemblyTask, parts: list[Row]) -> dict[str, bytes]:
    """Return the values of one row in each column."""
    ids, labels = (b"".join(column) for column in zip(*parts, strict=True))
    lengths = [len(part) // ID_BYTES for part, _ in parts]
    total = sum(lengths)
    if task.layout.row_tokens is None:
        return {"input_ids": ids, "labels": labels, "attention_mask": b"\1" * total}
    filled = task.layout.row_tokens - total
    if task.pack == NEAT:
        numbers = ((number).to_bytes(ID_BYTES, "little") * length for number, length in enumerate(lengths, 1))
        mask = b"".join(numbers) + bytes(ID_BYTES * filled)
    else:
        mask = b"\1" * (total + filled)
    return {
        "input_ids": ids + task.pad * filled,
        "labels": labels + IGNORED * filled,
        "attention_mask": mask,
        POSITIONS: b"".join(map(_positions, lengths)) + bytes(ID_BYTES * filled),
    }


@lru_cache(256)
def _positions(length: int) -> bytes:
    return array("i", range(length)).tobytes()
