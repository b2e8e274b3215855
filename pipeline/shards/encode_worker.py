"""Encoding one chunk: what a worker process does, and a thread of `encode_files`. Text is read exactly as for counting.

A worker process keeps the last tokenizer that it was sent, with warm caches.
"""

import logging
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

from pipeline import _core
from pipeline.corpus.files import CorpusFile
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.feeding import ChunkTask, RegexCutter, feed_chunk
from pipeline.counts.looks_special import LooksSpecial
from pipeline.executors import Broadcast
from pipeline.pattern.compiled import PatternSequence
from pipeline.pattern.compiler import compile_pattern
from pipeline.shards.begun_shards import BegunShards, KeptIds
from pipeline.shards.ids_file import IdsWriter, Part
from pipeline.storage import Location, named, open_file
from pipeline.storage.atomic import whole_file
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.prepare import IncomingText, SpecialSearch

_log = logging.getLogger(__name__)
_BLOCK_IDS, _BLOCK_BYTES = 1 << 18, 4 << 20
_PREPARED_BYTES = 1 << 20  # of text that Python changes at once
_PREPARED_COPIES = 12  # memory of a text that is kept whole, as a multiple of its bytes
Sink = Callable[[memoryview, memoryview], object]  # takes ids, and where documents end among all ids of the chunk


@dataclass(frozen=True, kw_only=True)
class IdsTask(ChunkTask):
    """One chunk to encode. separator: the id that ends a document; separators: whether it is among the ids.

    front, behind: the ids around the text of a document.
    """

    work: ClassVar[str] = "encoded"
    again: ClassVar[str] = "encode it again"

    separator: int | None
    separators: bool
    front: list[int]
    behind: list[int]
    id_bytes: int


@dataclass(frozen=True, kw_only=True)
class EncodeTask(IdsTask):
    """One chunk for a worker process. model: from `packed`; tokenizer: its fingerprint; cache_bytes: for pieces.

    shards: those that are written in place.
    """

    again: ClassVar[str] = "start from scratch with --overwrite"

    output: Location
    fingerprint: str
    model: Broadcast
    tokenizer: str
    cache_bytes: int
    shards: BegunShards | None

    def __repr__(self) -> str:
        return str(self)


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


def encode_chunk(task: EncodeTask) -> Part:
    """Encode one chunk and write its part. Raises as `count_chunk` does."""
    started = time.monotonic()
    model, encoder = loaded(task.model, task.tokenizer, task.cache_bytes)
    with whole_file(task.output) as path, path.open("wb") as file:
        part = IdsWriter(file, task.id_bytes)
        half = task.budget_bytes // 2  # for `regex`, where it cuts
        if model.pattern.tables is None and not isinstance(model.pattern, PatternSequence):
            task = replace(task, budget_bytes=half, copies=2 * task.copies)
        ids = KeptIds(part, task.shards)
        statistics = make_ids(task, model, encoder, ids.add, regex_bytes=half)
        written = part.finish_part(task.fingerprint, statistics, **ids.finish(task.output))
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
    prepared = model.preparation.changes_ids
    judged = task.errors == "skip" and not prepared  # prepared text was judged before
    special = model.vocabulary.special_tokens
    ids = _core.ChunkIds(
        encoder,
        list(special.values()),
        separator=task.separator,
        separators=task.separators,
        judged=judged,
        front=task.front,
        behind=task.behind,
    )
    separator = next((text.encode() for text, id_ in special.items() if id_ == task.separator), b"")
    if prepared:
        feeding: _Feeding = _PreparedFeeding(task, model, cutter, ids, sink)
    else:
        feeding = _Feeding(task, cutter, list(task.special_tokens), ids, ids, sink)

    def before(file: CorpusFile, start: int, stop: int) -> None:
        ids.start_text(False)
        if file.format != "text" or file.compression != "none":
            return
        if stop < file.size:
            feeding.end_inside_document()  # the next span continues it
        if start > 0 and (task.front or task.behind) and not _ends_with(file, start, separator):
            ids.start_text(True)

    looks = LooksSpecial(task.special_tokens)
    tally = feed_chunk(task, feeding, before, look=looks.look)
    feeding.write(at_least=0)
    found = {text: count for text, count in zip(special, ids.found(), strict=True) if count}
    return ChunkStatistics(bytes=feeding.fed_bytes(), losses=tally.found, special_found=found, **looks.statistics())


def _ends_with(file: CorpusFile, stop: int, separator: bytes) -> bool:
    """Whether the first `stop` bytes of a file end with a separator, so that a document starts there."""
    if not separator or stop < len(separator):
        return False
    with open_file(named(file.path)) as opened:
        return opened.read_at(stop - len(separator), len(separator)) == separator


class _Feeding(_core.ChunkCounter):
    """A counter that counts nothing: its pieces become ids, which are written to the sink in blocks."""

    def __init__(
        self, task: IdsTask, cutter: Any, special: list[bytes], pieces: _core.PieceSink, ids: _core.ChunkIds, sink: Sink
    ) -> None:
        super().__init__(cutter, special, errors=task.errors, budget_bytes=task.budget_bytes, sink=pieces)
        self._ids, self._sink, self._id_bytes = ids, sink, task.id_bytes

    def start_inside_document(self) -> None:
        """Do nothing: ids do not depend on where a document starts."""

    def end_inside_document(self) -> None:
        """Announce that the last document of the next text continues elsewhere."""
        self._ids.end_inside_document()

    def feed(self, block: Any, end: bool = False) -> None:
        super().feed(block, end)
        self.write(at_least=_BLOCK_IDS)

    def feed_documents(self, offsets: Any, data: Any, offset_bytes: int = 8) -> None:
        text = memoryview(data)
        if text.nbytes <= _BLOCK_BYTES:
            super().feed_documents(offsets, data, offset_bytes)
            self.write(at_least=_BLOCK_IDS)
            return
        for start, stop in pairwise(memoryview(offsets).cast("B").cast("q" if offset_bytes == 8 else "i")):
            for first in range(start, stop, _BLOCK_BYTES):  # the ids of a document of 100 MB take several times that
                self.feed(text[first : min(first + _BLOCK_BYTES, stop)], end=first + _BLOCK_BYTES >= stop)

    def write(self, *, at_least: int) -> None:
        """Write the ids that no later text changes, if there are this many."""
        if self._ids.ready() >= at_least:
            self._sink(self._ids.take(self._id_bytes), self._ids.take_ends())


class _PreparedFeeding(_Feeding):
    """The first counter repairs the text, Python prepares it for the pattern, a second counter makes ids of it."""

    def __init__(self, task: IdsTask, model: Model, cutter: Any, ids: _core.ChunkIds, sink: Sink) -> None:
        # `skip` judges documents, which special tokens separate; otherwise this counter need not know them.
        special = list(task.special_tokens) if task.errors == "skip" else []
        self._text = _core.ChunkText(special, judged=task.errors == "skip")
        super().__init__(task, compile_pattern("gpt2").automaton, special, self._text, ids, sink)
        self._encoding = _core.ChunkCounter(cutter, [], errors="strict", budget_bytes=task.budget_bytes, sink=ids)
        special_ids = model.vocabulary.special_tokens
        self._index = {id_: index for index, id_ in enumerate(special_ids.values())}
        self._incoming = IncomingText(SpecialSearch(special_ids, model.preparation), _PREPARED_BYTES)
        self._budget_bytes = task.budget_bytes
        self._continues = False

    def set_budget(self, budget_bytes: int) -> None:
        super().set_budget(budget_bytes)
        self._encoding.set_budget(budget_bytes)
        self._budget_bytes = budget_bytes

    def end_inside_document(self) -> None:
        self._continues = True

    def write(self, *, at_least: int) -> None:
        data, ends = self._text.take()
        start = 0
        for end, dropped in ends:  # what is around a dropped document does not touch
            self._encode(data[start:end], at_end=True)
            self._end_stretch(inside_document=dropped or self._continues)
            self._continues &= dropped
            start = end
        self._encode(data[start:], at_end=False)
        super().write(at_least=at_least)

    def _encode(self, data: bytes, *, at_end: bool) -> None:
        for stretch, id_ in self._incoming.push(data, at_end=at_end):
            if id_ is None:
                self._encoding.feed(stretch)
            else:
                self._end_stretch(inside_document=True)
                self._ids.special_token(self._index[id_])
        if self._incoming.waiting_bytes * _PREPARED_COPIES > self._budget_bytes:
            raise MemoryError(self.fed_bytes() - self._incoming.waiting_bytes, self._incoming.waiting_bytes)

    def _end_stretch(self, *, inside_document: bool) -> None:
        if inside_document:
            self._ids.end_inside_document()
        self._encoding.feed(b"", end=True)
