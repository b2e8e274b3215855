"""Encoding one chunk of chat data: what a worker process does. Its part has the values of `Row` as documents.

A row that is dropped has no values, and keeps its number.
"""

import logging
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, SpecialTokenError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.corpus.files import FileSpan
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.skipped_or_altered import Tally
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.feeding import in_text_bytes
from bpe_pipeline.executors import Broadcast, ignore
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.extensions.chat.data_sets import DataSet
from bpe_pipeline.extensions.chat.encoder import ID_BYTES, ChatEncoder, Row, with_template
from bpe_pipeline.extensions.chat.lengths import Conversations
from bpe_pipeline.extensions.chat.plan import Chat
from bpe_pipeline.extensions.chat.rows import read_rows
from bpe_pipeline.run.stored import plain
from bpe_pipeline.shards.chunk_file import EncodedChunk, IdsWriter, StoredIds, open_part
from bpe_pipeline.shards.encode_worker import loaded
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import whole_file

_log = logging.getLogger(__name__)
MOST_CACHE_BYTES = 32 << 20  # of pre-tokens under a limit: rows need memory more
_BLOCK_BYTES = 1 << 16  # rows are read back one by one: a block is read for each


@dataclass(frozen=True, kw_only=True)
class RowsTask:
    """Names a chunk of a data set and how it is encoded. tokenizer: a fingerprint; cache_bytes: for pre-tokens."""

    name: str
    spans: tuple[FileSpan, ...]
    sizes: tuple[int, ...]  # of the spans' text, as planned
    output: Location
    fingerprint: str
    data_set: DataSet
    chat: Chat
    model: Broadcast
    tokenizer: str
    cache_bytes: int
    budget_bytes: int
    grant: Grant

    def __repr__(self) -> str:
        file, start, stop = self.spans[0]
        return f"{self.name} ({file.path}, {start} to {stop}, {len(self.spans)} spans)"


def encode_rows(task: RowsTask) -> EncodedChunk:
    """Encode the rows of a chunk and write its part. Raises `InputError` for a file that changed or cannot be read."""
    started = time.monotonic()
    tally, lengths = Tally(), Counter[int]()
    with whole_file(task.output) as path, path.open("wb") as file:
        writer = IdsWriter(file, ID_BYTES)
        _write_rows(_rows(task, tally, lengths), writer)
        about = plain(Conversations.counted(task.chat.options.sequence_length or 0, lengths))
        part = writer.finish(task.fingerprint, ChunkStatistics(losses=tally.kinds), about=about)
    _log.info("%s: %d rows, %d ids in %.2f s", task, part.documents, part.ids, time.monotonic() - started)
    return part


def _rows(task: RowsTask, tally: Tally, lengths: Counter[int]) -> Iterator[bytes]:
    """Yield the values of the rows of a chunk, none for one that is dropped. What is no object has no number."""
    model, native = loaded(task.model, task.tokenizer, task.cache_bytes)
    chat, variables = task.chat, dict[str, Any]()
    if chat.day is not None:
        variables["strftime_now"] = date.fromisoformat(chat.day).strftime
    encoder = ChatEncoder(with_template(model, chat.template), chat.options, variables, native)
    budget = budget_of(task.budget_bytes, task.cache_bytes, task.grant)
    for span, text_bytes in zip(task.spans, task.sizes, strict=True):
        file, start, stop = span
        progress = report_progress if file.compression == "none" else in_text_bytes(text_bytes, stop - start)
        for record, position in read_rows(span, progress, task.data_set.names, budget):
            where, row = file.location(position), Row(b"", 0)
            if isinstance(record, str):
                tally.add(record, 1, [where])
                continue
            with encoder.noting(tally, where):
                try:
                    row = encoder.encode(task.data_set.dialog(record))
                except SpecialTokenError as error:
                    raise InputError(f"{where}: {error}") from None
                lengths[_rounded(row.tokens, task.chat.options.sequence_length or 0)] += 1
            yield row.values


def _write_rows(rows: Iterable[bytes], writer: IdsWriter) -> None:
    """Write rows in blocks."""
    values, ends, before, size = list[bytes](), array("Q"), 0, 0  # ids before the block, and with it
    for row in rows:
        values.append(row)
        size += len(row) // ID_BYTES
        ends.append(size)
        if ID_BYTES * (size - before) >= _BLOCK_BYTES or len(ends) >= _BLOCK_BYTES:
            writer.add(memoryview(b"".join(values)), memoryview(ends))
            values, ends, before = [], array("Q"), size
    writer.add(memoryview(b"".join(values)), memoryview(ends))


def budget_of(budget_bytes: int, cache_bytes: int, grant: Grant) -> ReadBudget:
    """Return the budget of rows. A cache that is not at `MOST_CACHE_BYTES` yet may take half of a larger limit."""
    return ReadBudget(budget_bytes, ignore, grant, copies=1 if cache_bytes == MOST_CACHE_BYTES else 2)


def _rounded(tokens: int, cut_off: int) -> int:
    """Round a length up to nine binary digits, but not past the cutoff: so few lengths differ that all are kept."""
    unit = 1 << max(tokens.bit_length() - 9, 0)
    rounded = -(-tokens // unit) * unit
    return rounded if tokens > cut_off else min(rounded, cut_off)


def hash_rows(part: StoredIds) -> "array[int]":
    """Return a hash of the values of each row of a part. Raises `RunDirectoryError` for a damaged part."""
    hashes, at = array("Q"), 0
    with open_part(part) as reader:
        for values, ends in reader.blocks():
            hashes += array("Q", _core.hash_documents(values, ends, ID_BYTES, at, 0)[0])
            at += len(values)
            report_progress(len(values))
    return hashes
