"""Encoding one chunk: what a worker process does. Text is read exactly as for counting, and its ids go to a part.

A worker keeps the tokenizer that it was sent, with warm caches, from one chunk to the next.
"""

import logging
import pickle
import time
from dataclasses import dataclass, replace
from typing import Any

from pipeline import _core
from pipeline.atomic import whole_file
from pipeline.corpus.files import CorpusFile
from pipeline.count_chunk import PLACED, CountTask, RegexCutter, feed_span, note_losses
from pipeline.id_parts import Part, PartWriter
from pipeline.losses import Tally
from pipeline.model import Model
from pipeline.pattern import PatternSequence

_log = logging.getLogger(__name__)
_BLOCK_IDS = 1 << 18


@dataclass(frozen=True, kw_only=True)
class EncodeTask(CountTask):
    """One chunk for a worker, and with what to encode it.

    model: as `packed` gives it; `tokenizer` is its fingerprint. special_ids: of `special_tokens`, in their order.
    separator: the id that ends a document; `separators`: whether it stands among the ids. cache_bytes: for pieces.
    """

    work = "encoded"

    model: bytes
    tokenizer: str
    special_ids: tuple[int, ...]
    separator: int | None
    separators: bool
    id_bytes: int
    cache_bytes: int

    def __repr__(self) -> str:
        return str(self)


def packed(model: Model) -> bytes:
    """A model as bytes for workers, without what is native."""
    pattern = replace(model.pattern, tree=None)
    if isinstance(pattern, PatternSequence):
        pattern = replace(pattern, steps=tuple(replace(step, tree=None) for step in pattern.steps))
    return pickle.dumps(replace(model, pattern=pattern))


_loaded: dict[str, tuple[Model, _core.Encoder]] = {}  # the one that was used last, with its caches


def _encoder(task: EncodeTask) -> tuple[Model, _core.Encoder]:
    if task.tokenizer not in _loaded:
        _loaded.clear()
        model: Model = pickle.loads(task.model)  # noqa: S301 - from our own coordinator
        _loaded[task.tokenizer] = model, model.encoder(cache_bytes=task.cache_bytes, threads=1)
    return _loaded[task.tokenizer]


def encode_chunk(task: EncodeTask) -> Part:
    """Encode one chunk and write its part. Runs in a worker process.

    Raises `TrainingError` where a piece is too long for the room, `InvalidTextError` under `errors="strict"` and
    `InputError` for a file that cannot be read or changed.
    """
    started = time.monotonic()
    model, encoder = _encoder(task)
    pattern = model.pattern
    in_steps = pattern.cut if isinstance(pattern, PatternSequence) else None
    cutter: Any = pattern.automaton or in_steps or RegexCutter(pattern)
    ids = _core.ChunkIds(
        encoder,
        list(task.special_ids),
        separator=task.separator,
        separators=task.separators,
        judged=task.errors == "skip",
    )
    counter = _core.ChunkCounter(
        cutter, list(task.special_tokens), errors=task.errors, room_bytes=task.room_bytes, ids=ids
    )
    with whole_file(task.output) as path, path.open("wb") as file:
        feeding = _Feeding(counter, ids, PartWriter(file, task.id_bytes), task.id_bytes)
        tally = _encode_spans(task, feeding)
        feeding.write(at_least=0)
        statistics = {"bytes": counter.fed_bytes(), "losses": tally.found}
        part = feeding.part.finish(task.fingerprint, statistics)
    elapsed_s = time.monotonic() - started
    _log.info("%s: %d bytes, %d ids in %.2f s", task, counter.fed_bytes(), part.ids, elapsed_s)
    return part


class _Feeding:
    """A counter that writes out its ids as they pile up."""

    def __init__(self, counter: _core.ChunkCounter, ids: _core.ChunkIds, part: PartWriter, id_bytes: int) -> None:
        self._counter, self._ids, self.part, self._id_bytes = counter, ids, part, id_bytes

    def fed_bytes(self) -> int:
        return self._counter.fed_bytes()

    def statistics(self) -> dict[str, Any]:
        return self._counter.statistics()

    def start_inside_document(self) -> None:
        self._counter.start_inside_document()

    def end_inside_document(self) -> None:
        self._ids.end_inside_document()

    def feed(self, block: Any, end: bool = False) -> None:
        self._counter.feed(block, end)
        self.write(at_least=_BLOCK_IDS)

    def feed_documents(self, offsets: Any, data: Any, offset_bytes: int = 8) -> None:
        self._counter.feed_documents(offsets, data, offset_bytes)
        self.write(at_least=_BLOCK_IDS)

    def write(self, *, at_least: int) -> None:
        if self._ids.ready() >= at_least:
            self.part.add(self._ids.take(self._id_bytes), self._ids.take_ends())


def _encode_spans(task: EncodeTask, feeding: _Feeding) -> Tally:
    specials = _core.SpecialTokens(list(task.special_tokens))
    tally = Tally()
    examples: dict[str, list[str]] = {key: [] for key in PLACED}
    for span in task.spans:
        if _goes_on(*span):
            feeding.end_inside_document()
        feed_span(feeding, specials, task, span, tally, examples)
    note_losses(feeding, tally, examples)
    return tally


def _goes_on(file: CorpusFile, _: int, stop: int) -> bool:
    """Whether the last document of a span is continued by the next one."""
    return file.format == "text" and file.compression == "none" and stop < file.size
