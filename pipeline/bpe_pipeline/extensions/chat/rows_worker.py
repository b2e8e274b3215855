"""Encoding one chunk of chat data: what a worker process does. Its part holds, for each row, ids and then labels.

A row that is dropped has neither, and keeps its number.
"""

import contextlib
import logging
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, SpecialTokenError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.corpus.files import CorpusFile, FileSpan
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.skipped_or_altered import Tally
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.feeding import in_text_bytes
from bpe_pipeline.executors import Broadcast, ignore
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.extensions.chat.align import Conversation, MissingColumnError, aligned
from bpe_pipeline.extensions.chat.data_sets import DataSet
from bpe_pipeline.extensions.chat.encoder import ID_BYTES, IGNORED, ChatEncoder, Row
from bpe_pipeline.extensions.chat.kinds import DroppedError
from bpe_pipeline.extensions.chat.lengths import Conversations
from bpe_pipeline.extensions.chat.options import ChatOptions
from bpe_pipeline.extensions.chat.rows import read_rows, rows_of
from bpe_pipeline.run.stored import plain
from bpe_pipeline.shards.chunk_file import EncodedChunk, IdsWriter, StoredIds, open_part
from bpe_pipeline.shards.encode_worker import loaded
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import whole_file
from bpe_pipeline.tokenizer.named_templates import Template

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
    template: Template
    options: ChatOptions
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
    tally, lengths, trained = Tally(), Counter[int](), Counter[int]()
    with whole_file(task.output) as path, path.open("wb") as file:
        writer = IdsWriter(file, ID_BYTES)
        _write_rows(_rows(task, tally, lengths, trained), writer)
        about = plain(Conversations.counted(task.options.sequence_length or 0, lengths, trained))
        part = writer.finish(task.fingerprint, ChunkStatistics(losses=tally.kinds), about=about)
    _log.info("%s: %d rows, %d ids in %.2f s", task, part.documents, part.ids // 2, time.monotonic() - started)
    return part


def _rows(task: RowsTask, tally: Tally, lengths: Counter[int], trained: Counter[int]) -> Iterator[Row | None]:
    """Yield the rows of a chunk, None for one that is dropped. What is no object is skipped, and has no number."""
    model, native = loaded(task.model, task.tokenizer, task.cache_bytes)
    encoder = ChatEncoder(task.template, model, task.options, native)
    budget = budget_of(task.budget_bytes, task.cache_bytes, task.grant)
    for span, text_bytes in zip(task.spans, task.sizes, strict=True):
        file, start, stop = span
        progress = report_progress if file.compression == "none" else in_text_bytes(text_bytes, stop - start)
        for record, position in read_rows(span, progress, task.data_set.names, budget):
            where, row = file.location(position), None
            if isinstance(record, str):
                tally.add(record, 1, [where])
                continue
            with encoder.noting(tally, where):
                try:
                    row = encoder.encode(_aligned(record, task.data_set))
                except MissingColumnError as error:
                    raise InputError(f"{where}: {error} (data set {task.data_set.name})") from None
                except SpecialTokenError as error:
                    raise InputError(f"{where}: {error}") from None
                lengths[_rounded(encoder.tokens, task.options.sequence_length or 0)] += 1
                trained[_trained_share(row)] += 1
            yield row


def _write_rows(rows: Iterable[Row | None], writer: IdsWriter) -> None:
    """Write rows in blocks."""
    columns, ends, before, values = list[bytes](), array("Q"), 0, 0  # values before the block, and with it
    for row in rows:
        if row is not None:
            columns += row
            values += 2 * len(row[0]) // ID_BYTES
        ends.append(values)
        if ID_BYTES * (values - before) >= _BLOCK_BYTES or len(ends) >= _BLOCK_BYTES:
            writer.add(memoryview(b"".join(columns)), memoryview(ends))
            columns, ends, before = [], array("Q"), values
    writer.add(memoryview(b"".join(columns)), memoryview(ends))


def budget_of(budget_bytes: int, cache_bytes: int, grant: Grant) -> ReadBudget:
    """Return the budget of rows. A cache that is not at `MOST_CACHE_BYTES` yet may take half of a larger limit."""
    return ReadBudget(budget_bytes, ignore, grant, copies=1 if cache_bytes == MOST_CACHE_BYTES else 2)


def _rounded(tokens: int, cut_off: int) -> int:
    """Round a length up to nine binary digits, but not past the cutoff: so few lengths differ that all are kept."""
    unit = 1 << max(tokens.bit_length() - 9, 0)
    rounded = -(-tokens // unit) * unit
    return rounded if tokens > cut_off else min(rounded, cut_off)


def _trained_share(row: Row) -> int:
    """Return the share of a row that is trained on in percent, a multiple of 5 below 100."""
    tokens = len(row[0]) // ID_BYTES
    trained = tokens - row[1].count(IGNORED)  # found at ids alone: no other one has its bytes
    return 5 * min(20 * trained // tokens, 19)


def first_conversations(file: CorpusFile, of: DataSet, budget: ReadBudget) -> Iterator[tuple[Conversation, str]]:
    """Yield the conversations in a file, and their locations."""
    for row, position in rows_of(file, of.names, budget):
        with contextlib.suppress(DroppedError, MissingColumnError):
            yield _aligned(row, of), file.location(position)


def hash_rows(part: StoredIds) -> "array[int]":
    """Return a hash of the ids of each row of a part. Raises `RunDirectoryError` for a damaged part."""
    hashes, at = array("Q"), 0
    with open_part(part) as reader:
        for values, ends in reader.blocks():
            halves = array("Q", (half for start, end in pairwise((at, *ends)) for half in ((start + end) // 2, end)))
            hashes += array("Q", _core.hash_documents(values, halves, ID_BYTES, at, 0)[0])[::2]
            at += len(values)
            report_progress(len(values) // 2)
    return hashes


def _aligned(row: Mapping[str, Any], of: DataSet) -> Conversation:
    """Return the conversation of a row, with null in the columns that it lacks."""
    return aligned({**dict.fromkeys(of.names), **row} if of.columns else row, of.formatting, of.columns, of.tags)
