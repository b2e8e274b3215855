"""Encoding one chunk: what a worker process does. Text is read exactly as for counting, and its ids go to a part.

A worker keeps the tokenizer that it was sent, with warm caches, from one chunk to the next.
"""

import logging
import pickle
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from pipeline import _core
from pipeline.corpus.files import CorpusFile
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.feeding import ChunkTask, RegexCutter, feed_chunk
from pipeline.executors import Broadcast
from pipeline.pattern import PatternSequence, compile_pattern
from pipeline.shards.part_file import Part, PartWriter
from pipeline.storage import Location
from pipeline.storage.atomic import whole_file
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.prepare import IncomingText, SpecialSearch

_log = logging.getLogger(__name__)
_BLOCK_IDS = 1 << 18
_PREPARED_BYTES = 1 << 20  # of text that Python changes at once
_PREPARED_COPIES = 12  # what a text that is kept whole takes, in its own bytes


class Sink(Protocol):
    """What ids go to, with the places where documents end among all of the chunk."""

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """One more block."""
        ...


@dataclass(frozen=True, kw_only=True)
class IdsTask(ChunkTask):
    """One chunk of which ids are made.

    special_ids: of `special_tokens`, in their order. separator: the id that ends a document; `separators`: whether it
    stands among the ids.
    """

    work: ClassVar[str] = "encoded"
    again: ClassVar[str] = "encode it again"

    special_ids: tuple[int, ...]
    separator: int | None
    separators: bool
    id_bytes: int


@dataclass(frozen=True, kw_only=True)
class EncodeTask(IdsTask):
    """One chunk for a worker: where its part goes, and with what to encode it.

    model: what `packed` gives; `tokenizer` is its fingerprint. cache_bytes: for pieces.
    """

    again: ClassVar[str] = "start from scratch with --overwrite"

    output: Location
    fingerprint: str
    model: Broadcast
    tokenizer: str
    cache_bytes: int

    def __repr__(self) -> str:
        return str(self)


def packed(model: Model) -> bytes:
    """A model as bytes for workers, without what is native."""
    pattern = replace(model.pattern, tree=None)
    if isinstance(pattern, PatternSequence):
        pattern = replace(pattern, steps=tuple(replace(step, tree=None) for step in pattern.steps))
    return pickle.dumps(replace(model, pattern=pattern))


_loaded: dict[tuple[str, int], tuple[Model, _core.Encoder]] = {}  # the one that was used last, with its caches


def _encoder(task: EncodeTask) -> tuple[Model, _core.Encoder]:
    key = task.tokenizer, task.cache_bytes
    if key not in _loaded:
        _loaded.clear()
        model: Model = pickle.loads(task.model.get())  # noqa: S301 - from our own coordinator
        _loaded[key] = model, model.encoder(cache_bytes=task.cache_bytes, threads=1)
    return _loaded[key]


def encode_chunk(task: EncodeTask) -> Part:
    """Encode one chunk and write its part. Runs in a worker process.

    Raises `TrainingError` where a piece is too long for the room, `InvalidTextError` under `errors="strict"` and
    `InputError` for a file that cannot be read or changed.
    """
    started = time.monotonic()
    model, encoder = _encoder(task)
    with whole_file(task.output) as path, path.open("wb") as file:
        part = PartWriter(file, task.id_bytes)
        statistics = make_ids(task, model, encoder, part)
        written = part.finish(task.fingerprint, statistics)
    elapsed_s = time.monotonic() - started
    _log.info("%s: %d bytes, %d ids in %.2f s", task, statistics.bytes, written.ids, elapsed_s)
    return written


def make_ids(task: IdsTask, model: Model, encoder: _core.Encoder, sink: Sink) -> ChunkStatistics:
    """Read a chunk, and give its ids to the sink; returns how many bytes there were, and what was lost of them.

    encoder: the model's; calls from several threads run side by side. How long the `regex` package may take is the
    task's to say, not the model's. Raises as `encode_chunk` does.
    """
    pattern = model.pattern
    in_steps = pattern.cut if isinstance(pattern, PatternSequence) else None
    cutter: Any = pattern.automaton or in_steps or RegexCutter(task.pattern)
    prepared = model.preparation.changes_ids
    ids = _core.ChunkIds(
        encoder,
        list(task.special_ids),
        separator=task.separator,
        separators=task.separators,
        judged=task.errors == "skip" and not prepared,  # prepared text was judged before
    )
    feeding = (PreparedFeeding if prepared else Feeding)(task, model, cutter, ids, sink)

    def before(file: CorpusFile, _: int, stop: int) -> None:
        if file.format == "text" and file.compression == "none" and stop < file.size:
            feeding.end_inside_document()  # the next span goes on with it

    tally = feed_chunk(task, feeding, before)
    feeding.write(at_least=0)
    return ChunkStatistics(bytes=feeding.fed_bytes(), losses=tally.found)


class Feeding:
    """Text goes to a counter, which makes ids of it, and these to the sink as they pile up."""

    def __init__(self, task: IdsTask, _: Model, cutter: Any, ids: _core.ChunkIds, sink: Sink) -> None:
        self._counter = _core.ChunkCounter(
            cutter, list(task.special_tokens), errors=task.errors, room_bytes=task.budget_bytes, sink=ids
        )
        self._ids, self._sink, self._id_bytes = ids, sink, task.id_bytes

    def fed_bytes(self) -> int:
        """Bytes fed so far."""
        return self._counter.fed_bytes()

    def statistics(self) -> dict[str, Any]:
        """What was met so far."""
        return self._counter.statistics()

    def start_inside_document(self) -> None:
        """The next text goes on with a document."""

    def end_inside_document(self) -> None:
        """The next text's last document goes on elsewhere."""
        self._ids.end_inside_document()

    def set_room(self, room_bytes: int) -> None:
        """So many bytes for the text at hand, from now on."""
        self._counter.set_room(room_bytes)

    def feed(self, block: Any, end: bool = False) -> None:
        """The next bytes of a text."""
        self._counter.feed(block, end)
        self.write(at_least=_BLOCK_IDS)

    def feed_documents(self, offsets: Any, data: Any, offset_bytes: int = 8) -> None:
        """Documents in a column."""
        self._counter.feed_documents(offsets, data, offset_bytes)
        self.write(at_least=_BLOCK_IDS)

    def write(self, *, at_least: int) -> None:
        """Write the ids that are certain, where there are so many."""
        if self._ids.ready() >= at_least:
            self._sink.add(self._ids.take(self._id_bytes), self._ids.take_ends())


class PreparedFeeding(Feeding):
    """Where another trainer's file has texts changed before they are cut.

    A counter repairs the text, Python changes it, and a second counter makes ids of it.
    """

    def __init__(self, task: IdsTask, model: Model, cutter: Any, ids: _core.ChunkIds, sink: Sink) -> None:
        super().__init__(task, model, cutter, ids, sink)
        # Documents are judged between special tokens, as wherever text is read; otherwise it is taken as it comes.
        special_tokens = list(task.special_tokens) if task.errors == "skip" else []
        self._text = _core.ChunkText(special_tokens, judged=task.errors == "skip")
        repairing = compile_pattern("gpt2").automaton
        assert repairing is not None, "a named pattern has an automaton"
        self._encoding = _core.ChunkCounter(cutter, [], errors="strict", room_bytes=task.budget_bytes, sink=ids)
        self._counter = _core.ChunkCounter(
            repairing, special_tokens, errors=task.errors, room_bytes=task.budget_bytes, sink=self._text
        )
        special_ids = model.vocabulary.special_tokens
        self._index = {id_: index for index, id_ in enumerate(special_ids.values())}
        self._incoming = IncomingText(SpecialSearch(special_ids, model.preparation), _PREPARED_BYTES)
        self._room_bytes = task.budget_bytes
        self._goes_on = False

    def set_room(self, room_bytes: int) -> None:
        """So many bytes for the text at hand, from now on."""
        super().set_room(room_bytes)
        self._encoding.set_room(room_bytes)
        self._room_bytes = room_bytes

    def end_inside_document(self) -> None:
        """The next text's last document goes on elsewhere."""
        self._goes_on = True

    def write(self, *, at_least: int) -> None:
        """Encode the text that is certain, and write its ids."""
        data, ends = self._text.take()
        at = 0
        for end in ends:
            self._encode(data[at:end], at_end=True)
            at = end
        self._encode(data[at:], at_end=False)
        super().write(at_least=at_least)

    def _encode(self, data: bytes, *, at_end: bool) -> None:
        for stretch, id_ in self._incoming.push(data, at_end=at_end):
            if id_ is None:
                self._encoding.feed(stretch)
            else:
                self._end_stretch(goes_on=True)
                self._ids.special_token(self._index[id_])
        if self._incoming.waiting_bytes * _PREPARED_COPIES > self._room_bytes:
            raise MemoryError(self.fed_bytes() - self._incoming.waiting_bytes, self._incoming.waiting_bytes)
        if at_end:
            self._end_stretch(goes_on=self._goes_on)
            self._goes_on = False

    def _end_stretch(self, *, goes_on: bool) -> None:
        if goes_on:
            self._ids.end_inside_document()
        self._encoding.feed(b"", end=True)
