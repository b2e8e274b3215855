"""Encoding one chunk: what a worker process does, and a thread of `encode` in memory.

Text is read exactly as for counting.
A worker process keeps the last tokenizer that it was sent, with warm caches.
"""

import logging
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

from bpe_pipeline import _core
from bpe_pipeline.base.errors import shown
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.feeding import ChunkTask, RegexCutter, feed_chunk
from bpe_pipeline.counts.looks_special import LooksSpecial
from bpe_pipeline.executors import Broadcast
from bpe_pipeline.pattern.compiled import PatternSequence
from bpe_pipeline.shards.blocks import EncodedChunk, IdsWriter, Sink
from bpe_pipeline.storage import Location, named, open_file
from bpe_pipeline.storage.atomic import whole_file
from bpe_pipeline.tokenizer.model import Model, refused_texts

_log = logging.getLogger(__name__)
_BLOCK_IDS, _BLOCK_BYTES = 1 << 18, 4 << 20


@dataclass(frozen=True, kw_only=True)
class IdsTask(ChunkTask):
    """One chunk to encode. separator: the id that ends a document; separators: whether it is among the ids.

    ends: the first of the special tokens, each of which becomes it in text; not all need be tokens.

    special_tokens_in_text: what special tokens become that separate nothing.
    front, behind: the ids around the text of a document. held_out_from: where a document ends inside of a file.
    in_text: the special tokens, by their indices, that separate nothing.
    """

    work: ClassVar[str] = "encoded"
    again: ClassVar[str] = "encode it again"
    as_text: ClassVar[str] = "encode it as text with --special-tokens-in-text text, "

    separator: int | None
    separators: bool
    ends: dict[str, int]
    special_tokens_in_text: str
    front: list[int]
    behind: list[int]
    id_bytes: int
    held_out_from: tuple[str, int] | None = None
    in_text: range = range(0)

    @property
    def refused(self) -> list[int]:
        """The indices among `tokens` of those that are an error in text."""
        return [*super().refused, *(self.in_text if self.special_tokens_in_text == "refuse" else ())]

    def refusal(self, index: int) -> str:
        """Return what a token is, one of `refused`, and what helps."""
        if index in super().refused:
            return super().refusal(index)
        return (
            f"special token {shown(self.special_tokens[index].decode())}; remove it, or encode it with "
            "--special-tokens-in-text text (as text) or tokens (as a special token)"
        )


@dataclass(frozen=True, kw_only=True)
class ShardsTask(IdsTask):
    """One chunk whose ids go to shards: a file that was fixed makes other ones."""

    again: ClassVar[str] = "start from scratch with --overwrite"


@dataclass(frozen=True, kw_only=True)
class EncodeTask(ShardsTask):
    """One chunk for a worker process. model: from `packed`; tokenizer: its fingerprint; cache_bytes: for pre-tokens."""

    output: Location
    fingerprint: str
    model: Broadcast
    tokenizer: str
    cache_bytes: int

    def __repr__(self) -> str:
        return str(self)


Task = TypeVar("Task", bound=IdsTask)


def packed(model: Model) -> bytes:
    """Return a model as bytes for workers, without its native parts."""
    return pickle.dumps(replace(model))


_loaded: dict[tuple[str, int], tuple[Model, _core.Encoder]] = {}  # at most one


def loaded(model: Broadcast, tokenizer: str, cache_bytes: int) -> tuple[Model, _core.Encoder]:
    """Return the model that was sent with its encoder, which stays with its caches until another one is sent."""
    key = tokenizer, cache_bytes
    if key not in _loaded:
        _loaded.clear()
        sent: Model = pickle.loads(model.get())  # noqa: S301 - from our own coordinator
        _loaded[key] = sent, sent.encoder(cache_bytes=cache_bytes, threads=1)
    return _loaded[key]


def unload() -> None:
    """Free the model that was sent last, with its caches: a later stage has the memory."""
    if _loaded:
        _loaded.clear()
        _core.give_back_memory()


def encode_chunk(task: EncodeTask) -> EncodedChunk:
    """Encode one chunk and write its part. Raises as `count_chunk` does."""
    started = time.monotonic()
    model, encoder = loaded(task.model, task.tokenizer, task.cache_bytes)
    with whole_file(task.output) as path, path.open("wb") as file:
        part = IdsWriter(file, task.id_bytes)
        half = task.budget_bytes // 2  # for `regex`, where it cuts
        if model.pattern.tables is None and not isinstance(model.pattern, PatternSequence):
            task = replace(task, budget_bytes=half, copies=2 * task.copies)
        statistics = make_ids(task, model, encoder, part.add, regex_bytes=half)
        written = part.finish(task.fingerprint, statistics)
    elapsed_s = time.monotonic() - started
    _log.info("%s: %d bytes, %d ids in %.2f s", task, written.statistics.bytes, written.ids, elapsed_s)
    return written


def make_ids(
    task: IdsTask, model: Model, encoder: _core.Encoder, sink: Sink, *, regex_bytes: int | None = None
) -> ChunkStatistics:
    """Read a chunk and pass its ids to the sink; returns how many bytes it has, and what was skipped or altered."""
    pattern = model.pattern
    in_steps = pattern.lengths if isinstance(pattern, PatternSequence) else None
    cutter: Any = pattern.automaton or in_steps or RegexCutter(task.pattern, regex_bytes)  # of the task's timeout
    ids_of = {**task.ends, **model.vocabulary.special_tokens}
    ids = _core.ChunkIds(
        encoder,
        [],
        separator=task.separator,
        separators=task.separators,
        judged=task.judge.drops_documents,
        front=task.front,
        behind=task.behind,
    )
    looks = LooksSpecial([*task.special_tokens, *task.added_tokens])
    task = _recognising(task, model)
    special = {text: ids_of[text] for token in (*task.special_tokens, *task.added_tokens) if (text := token.decode())}
    ids.recognise(list(special.values()))
    feeding = _Feeding(task, cutter, ids, sink, model.counting_pattern.form)
    with refused_texts():
        tally = feed_chunk(task, feeding, feeding.start_span, look=looks.look)
    feeding.write(at_least=0)
    read, (text_tokens, text_bytes) = feeding.statistics(), ids.text()  # without added tokens
    counts = {text: count for text, count in zip(special, ids.found(), strict=True) if count}
    in_text = {text: counts[text] for text in list(special)[task.in_text.start : task.in_text.stop] if text in counts}
    added = {text: count for text, count in counts.items() if special[text] not in model.special_ids}
    return ChunkStatistics(
        bytes=read["bytes"],
        text_tokens=text_tokens + sum(added.values()),
        text_bytes=text_bytes + sum(len(text.encode()) * count for text, count in added.items()),
        losses=tally.kinds,
        special_found=counts,
        special_in_text=in_text,
        left_out=tuple(read["left_out"]),
        cut=tuple(read["cut"]),
        **looks.statistics(),
    )


def _recognising(task: Task, model: Model) -> Task:
    """Return the task with the special tokens that are recognised, first those that end documents.

    The separator ends documents in texts; records are documents of their own. A chunk has only files of one kind.
    """
    names = [token.decode() for token in task.special_tokens]
    recognised = list(task.ends) if task.spans[0].file.kind.begins_anywhere else []
    ending, replaced = len(recognised), task.ends.keys() - model.vocabulary.special_tokens
    if task.special_tokens_in_text != "text":
        recognised += [name for name in names if name not in (*recognised, *replaced)]
    rules = {text: rule for text, rule in task.rules.items() if text in recognised or text not in names}
    judged = sum(name in names[: task.ending] for name in recognised)
    special_tokens = tuple(text.encode() for text in recognised)
    in_text = range(ending, len(special_tokens))
    return replace(task, special_tokens=special_tokens, ending=judged, rules=rules, in_text=in_text)


def _ends_with(file: CorpusFile, stop: int, separator: bytes) -> bool:
    """Return whether the first `stop` bytes of a file end with a separator, so that a document starts there."""
    if stop < len(separator):
        return False
    with open_file(named(file.path)) as opened:
        return opened.read_at(stop - len(separator), len(separator)) == separator


def _in_blocks(offsets: Any, data: Any, offset_bytes: int) -> Iterator[tuple[memoryview, bool]]:
    """Yield the documents of a column in blocks of bytes, and whether each block is the last one of its document."""
    text = memoryview(data)
    for start, stop in pairwise(memoryview(offsets).cast("B").cast("q" if offset_bytes == 8 else "i")):
        for first in range(start, stop, _BLOCK_BYTES):
            yield text[first : min(first + _BLOCK_BYTES, stop)], first + _BLOCK_BYTES >= stop


class _Feeding(_core.ChunkCounter):
    """A counter that counts nothing: its pre-tokens become ids, which are written to the sink in blocks."""

    def __init__(
        self,
        task: IdsTask,
        cutter: Any,
        ids: _core.ChunkIds,
        sink: Sink,
        form: _core.NormalForm | None,
    ) -> None:
        separators, others = task.tokens
        super().__init__(
            cutter,
            separators,
            added_tokens=others,
            judge=task.judge,
            budget_bytes=task.budget_bytes,
            sink=ids,
            form=form,
            refused=task.refused,
        )
        self._ids, self._sink, self._task = ids, sink, task

    def start_span(self, file: CorpusFile, start: int, stop: int) -> None:
        """Announce where the next text starts and ends."""
        task = self._task
        ends = [text.encode() for text in task.ends]
        self._ids.start_text(False)
        if not file.is_plain:
            return
        if stop < file.size and (file.path, stop) != task.held_out_from:
            self._ids.end_inside_document()  # the next span continues it
        continues = start > 0 and (file.path, start) != task.held_out_from
        if continues and (task.front or task.behind) and not any(_ends_with(file, start, text) for text in ends):
            self._ids.start_text(True)

    def start_inside_document(self) -> None:
        """Do nothing: ids do not depend on where a document starts."""

    def feed(self, block: Any, end: bool = False) -> None:
        super().feed(block, end)
        self.write(at_least=_BLOCK_IDS)

    def feed_documents(self, offsets: Any, data: Any, offset_bytes: int = 8, are_lines: bool = False) -> None:
        text = memoryview(data)
        if text.nbytes <= _BLOCK_BYTES:
            super().feed_documents(offsets, data, offset_bytes, are_lines)
            self.write(at_least=_BLOCK_IDS)
            return
        for block, end in _in_blocks(offsets, data, offset_bytes):  # ids take several times its bytes
            self.feed(block, end)

    def write(self, *, at_least: int) -> None:
        """Write the ids that no later text changes, if there are this many."""
        if self._ids.ready() >= at_least:
            self._sink(self._ids.take(self._task.id_bytes), self._ids.take_ends())
