"""Encoding one chunk: what a worker process does, and a thread of `encode_files`. Text is read exactly as for counting.

A worker process keeps the last tokenizer that it was sent, with warm caches.
"""

import logging
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import sub
from typing import Any, ClassVar

from pipeline import _core
from pipeline.base.errors import InputError
from pipeline.corpus.chunks import Cutting
from pipeline.corpus.files import CorpusFile, FileSpan
from pipeline.corpus.read_budget import UNLIMITED
from pipeline.corpus.readers import read_span, text_range
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.feeding import ChunkTask, RegexCutter, feed_chunk
from pipeline.counts.looks_special import LooksSpecial
from pipeline.executors import Broadcast, ignore
from pipeline.pattern.compiled import PatternSequence
from pipeline.pattern.compiler import compile_pattern
from pipeline.shards.begun_shards import BegunShards, KeptIds
from pipeline.shards.ids_file import IdsWriter, Part
from pipeline.storage import Location, named, open_file
from pipeline.storage.atomic import whole_file
from pipeline.tokenizer.model import Model, refused_texts
from pipeline.tokenizer.prepare import IncomingText, SpecialSearch

_log = logging.getLogger(__name__)
_BLOCK_IDS, _BLOCK_BYTES = 1 << 18, 4 << 20
_PREPARED_BYTES = 1 << 20  # of text that Python changes at once
_PREPARED_COPIES = 12  # memory of a text that is kept whole, as a multiple of its bytes
Sink = Callable[[memoryview, memoryview], object]  # takes ids, and where documents end among all ids of the chunk


@dataclass(frozen=True, kw_only=True)
class IdsTask(ChunkTask):
    """One chunk to encode. separator: the id that ends a document; separators: whether it is among the ids.

    special_tokens_in_text: what special tokens become that separate nothing. front, behind: the ids around the text of
    a document.
    """

    work: ClassVar[str] = "encoded"
    again: ClassVar[str] = "encode it again"

    separator: int | None
    separators: bool
    special_tokens_in_text: str
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


def unload() -> None:
    """Free the model that was sent last, with its caches: a later stage has the memory."""
    if _loaded:
        _loaded.clear()
        _core.give_back_memory()


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
    special = model.vocabulary.special_tokens
    names = sorted(special, key=lambda text: special[text] != task.separator)  # the separator first
    ids = _core.ChunkIds(
        encoder,
        [special[text] for text in names],
        separator=task.separator,
        separators=task.separators,
        judged=task.errors == "skip" and not model.preparation.changes_ids,  # prepared text was judged before
        front=task.front,
        behind=task.behind,
    )
    in_text = _SpecialInText(task, ids, names)
    looks, total = LooksSpecial(task.special_tokens), ChunkStatistics()
    for part in in_text.parts():
        if model.preparation.changes_ids:
            feeding: _Feeding = _PreparedFeeding(part, model, cutter, ids, sink)
        else:
            feeding = _Feeding(part, cutter, list(part.special_tokens), ids, ids, sink)

        def before(file: CorpusFile, start: int, stop: int, feeding: _Feeding = feeding) -> None:
            in_text.enter(FileSpan(file, start, stop))
            feeding.start_span(file, start, stop)

        with refused_texts():
            tally = feed_chunk(part, feeding, before, look=looks.look)
        feeding.write(at_least=0)
        total += ChunkStatistics(bytes=feeding.fed_bytes(), losses=tally.found)
    in_text.enter(None)
    found = {text: count for text, count in zip(names, ids.found(), strict=True) if count}
    return replace(total, special_found=found, special_in_text=dict(in_text.found), **looks.statistics())


class _SpecialInText:
    """Special tokens that end no document: which of them are recognised, and how often they occur.

    names: of all special tokens, the separator first. It ends documents in texts; records are documents of their own.
    """

    def __init__(self, task: IdsTask, ids: _core.ChunkIds, names: Sequence[str]) -> None:
        self._task, self._ids, self._names = task, ids, names
        self._span: FileSpan | None = None  # the first of those whose tokens are not in `found` yet
        self._before: Sequence[int] = ids.found()
        self.found: Counter[str] = Counter()

    def _separators(self, span: FileSpan) -> int:
        return int(span.file.format == "text" and self._task.separator is not None)

    def parts(self) -> Iterator[IdsTask]:
        """Yield the task, or parts of it: consecutive spans in which the same special tokens are recognised."""
        task, names, start = self._task, tuple(text.encode() for text in self._names), 0
        if task.special_tokens_in_text != "text":
            yield replace(task, special_tokens=names)
            return
        for separators, spans in groupby(task.spans, self._separators):
            own = slice(start, start + len(list(spans)))
            yield replace(task, spans=task.spans[own], sizes=task.sizes[own], special_tokens=names[:separators])
            start = own.stop

    def enter(self, span: FileSpan | None) -> None:
        """Note what the spans before this one have; `InputError` if they have special tokens that are refused."""
        refused, last = self._task.special_tokens_in_text == "refuse", self._span
        if last is None or span is None or refused or self._separators(span) != self._separators(last):
            now = self._ids.found()
            if last is not None:
                found = dict(zip(self._names, map(sub, now, self._before), strict=True))
                own = {text: found[text] for text in self._names[self._separators(last) :] if found[text]}
                if own and refused:
                    raise _refusal(self._task, last, next(iter(own)))
                self.found.update(own)
            self._span, self._before = span, now


def _refusal(task: IdsTask, span: FileSpan, text: str) -> InputError:
    """Return the error for a special token in a text, with its location."""
    return InputError(
        f"{_location_of(task, span, text.encode())}: the text contains the special token {text!r}; remove it, or "
        "encode it with --special-tokens-in-text text (as text) or tokens (as a special token)"
    )


def _location_of(task: IdsTask, span: FileSpan, wanted: bytes) -> str:
    """Return where a span has a text, by reading it again; its file if it is not found as it is written."""
    file, before = span.file, b""
    text: tuple[int, int | None] = (span.start, None)
    if file.compression != "none":
        text = text_range(span, Cutting(task.special_tokens, task.pattern.automaton), UNLIMITED)
    end = text[0]
    for block in read_span(span, task.text_field, ignore, UNLIMITED, text):
        if isinstance(block, bytes):
            end += len(block)
            before = before[1 - len(wanted) :] + block if len(wanted) > 1 else block
            if (at := before.find(wanted)) >= 0:
                return file.location(end - len(before) + at)
        elif (at := bytes(block.data).find(wanted, block.starts[0], block.starts[block.rows])) >= 0:
            return file.location(block.position(block.row_at(at - block.starts[0])))
    return file.path


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
        self._ids, self._sink, self._task = ids, sink, task

    def start_span(self, file: CorpusFile, start: int, stop: int) -> None:
        """Announce where the next text starts and ends."""
        task = self._task
        separator = task.special_tokens[0] if task.special_tokens and task.separator is not None else b""
        self._ids.start_text(False)
        if file.format != "text" or file.compression != "none":
            return
        if stop < file.size:
            self.end_inside_document()  # the next span continues it
        if start > 0 and (task.front or task.behind) and not _ends_with(file, start, separator):
            self._ids.start_text(True)

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
            self._sink(self._ids.take(self._task.id_bytes), self._ids.take_ends())


class _PreparedFeeding(_Feeding):
    """The first counter repairs the text, Python prepares it for the pattern, a second counter makes ids of it."""

    def __init__(self, task: IdsTask, model: Model, cutter: Any, ids: _core.ChunkIds, sink: Sink) -> None:
        # `skip` judges documents, which special tokens separate; otherwise this counter need not know them.
        special = list(task.special_tokens) if task.errors == "skip" else []
        self._text = _core.ChunkText(special, judged=task.errors == "skip")
        super().__init__(task, compile_pattern("gpt2").automaton, special, self._text, ids, sink)
        self._encoding = _core.ChunkCounter(cutter, [], errors="strict", budget_bytes=task.budget_bytes, sink=ids)
        known = (text.decode() for text in task.special_tokens)
        special_ids = {text: model.vocabulary.special_tokens[text] for text in known}
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
