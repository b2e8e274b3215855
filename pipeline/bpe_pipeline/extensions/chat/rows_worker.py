"""Encoding chat data: the tasks of its chunks, and what a worker process does. Documents are the values of `Row`."""

import logging
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from bpe_pipeline.base.errors import InputError, SpecialTokenError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.corpus.files import FileSpan
from bpe_pipeline.corpus.read_budget import ReadBudget
from bpe_pipeline.corpus.skipped_or_altered import Tally
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.feeding import in_text_bytes
from bpe_pipeline.executors import Broadcast, ignore
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.extensions.chat.about import Conversations
from bpe_pipeline.extensions.chat.encoder import ChatEncoder, with_template
from bpe_pipeline.extensions.chat.plan import Chat, DataSet
from bpe_pipeline.extensions.chat.rows import read_rows
from bpe_pipeline.extensions.chat.training_rows import ID_BYTES
from bpe_pipeline.run.runner import Stage
from bpe_pipeline.run.stored import plain
from bpe_pipeline.shards.blocks import EncodedChunk, IdsWriter
from bpe_pipeline.shards.encode_worker import loaded, packed
from bpe_pipeline.shards.encoding_tasks import ChunkFiles, encoding_stage, encoding_workers
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import whole_file
from bpe_pipeline.tokenizer.model import Model

_log = logging.getLogger(__name__)
_BLOCK_BYTES = 1 << 20


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


@dataclass(frozen=True)
class ChatData(ChunkFiles):
    """The rows of data sets."""

    model: Model
    chat: Chat

    def stage(self) -> Stage[RowsTask, EncodedChunk]:
        """Return the stage of workers that encode the chunks of rows."""
        runner, plan, chat = self.runner, self.encoding.plan, self.chat
        workers = encoding_workers(runner.broker, runner.workers, self.model, len(plan.chunks), runner.nodes)
        budget = ReadBudget(workers.text_bytes, ignore, workers.grant, copies=2)
        owners = {file.path: owner for file, owner in zip(plan.files, plan.owners, strict=True)}
        for number, data_set in enumerate(chat.sets):
            data_set.require_columns((file for file in plan.files if owners[file.path] == number), budget)
        broadcast = runner.executor.broadcast(packed(self.model))

        def task_of(**chunk: Any) -> RowsTask:
            return RowsTask(
                **chunk,
                data_set=chat.sets[owners[chunk["spans"][0].file.path]],
                chat=chat,
                model=broadcast,
                tokenizer=self.encoding.options["tokenizer"],
                cache_bytes=workers.cache_bytes,
                budget_bytes=workers.text_bytes,
                grant=workers.grant,
            )

        return encoding_stage(self.encoding, encode_rows, task_of, workers.grant)


def encode_rows(task: RowsTask) -> EncodedChunk:
    """Encode the rows of a chunk and write its part. Raises `InputError` for a file that changed or cannot be read."""
    started = time.monotonic()
    tally, lengths = Tally(), Counter[int]()
    with whole_file(task.output) as path, path.open("wb") as file:
        writer = IdsWriter(file, ID_BYTES)
        values, ends, tokens = bytearray(), array("Q"), 0
        for row in _rows(task, tally, lengths):
            values += row
            tokens += len(row) // ID_BYTES
            ends.append(tokens)
            if len(values) >= _BLOCK_BYTES:
                writer.add(memoryview(values), memoryview(ends))
                values, ends = bytearray(), array("Q")
        writer.add(memoryview(values), memoryview(ends))
        about = plain(Conversations.counted(task.chat.options.sequence_length or 0, lengths))
        part = writer.finish(task.fingerprint, ChunkStatistics(losses=tally.kinds), about=about)
    _log.info("%s: %d rows, %d ids in %.2f s", task, part.documents, part.ids, time.monotonic() - started)
    return part


def _rows(task: RowsTask, tally: Tally, lengths: Counter[int]) -> Iterator[bytes]:
    """Yield the values of the rows of a chunk that are not dropped."""
    model, native = loaded(task.model, task.tokenizer, task.cache_bytes)
    chat, variables = task.chat, dict[str, Any]()
    if chat.day is not None:
        variables["strftime_now"] = date.fromisoformat(chat.day).strftime
    encoder = ChatEncoder(with_template(model, chat.template), chat.options, variables, native)
    budget = ReadBudget(task.budget_bytes, ignore, task.grant, copies=2)  # of more memory, half may go to the cache
    for span, text_bytes in zip(task.spans, task.sizes, strict=True):
        file, start, stop = span
        progress = report_progress if file.compression == "none" else in_text_bytes(text_bytes, stop - start)
        for record, position in read_rows(span, progress, task.data_set.names, budget):
            where = file.location(position)
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


def _rounded(tokens: int, cut_off: int) -> int:
    """Round a length up to nine binary digits, but not past the cutoff: so few lengths differ that all are kept."""
    unit = 1 << max(tokens.bit_length() - 9, 0)
    rounded = -(-tokens // unit) * unit
    return rounded if tokens > cut_off else min(rounded, cut_off)
