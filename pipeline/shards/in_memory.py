"""A corpus to ids in memory: what `encode_corpus` writes as shards, for whoever has the room and wants no files.

Threads of this process encode chunks side by side, with one encoder; reading and repairing is that of `encode_corpus`.
"""

from array import array
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from threading import Event
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.base.events import Notice, warn_of
from pipeline.corpus.skipped_or_altered import KindTally, add_up, fail_on_loss_error, in_words
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.run.options import Options, make_options, names_of, refuse_unfit
from pipeline.run.plan import Plan, list_corpus
from pipeline.run.work import on_regex
from pipeline.shards.encode_worker import IdsTask, make_ids
from pipeline.shards.plan import (
    OF_TRAINING,
    cut_corpus,
    dtype_of,
    encoding_workers,
    id_bytes,
    separator_of,
    special_bytes,
)
from pipeline.storage import Remote, named
from pipeline.tokenizer.formats.load import load_model
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.tokenizer import Tokenizer

_OF_SHARDS = names_of("run", "encode") - {
    *("inputs", "workers", "memory_limit", "chunk_size", "pattern_timeout", "fail_on_loss", "documents", "separator")
}


@dataclass(frozen=True, eq=False)
class EncodedFiles(Sequence[memoryview]):
    """The ids of a corpus; a sequence of documents, each with its ids.

    ids: of all documents together, uint16 or uint32, as `numpy.asarray` takes them without a copy; with separators
    between documents as they were asked for. ends: where each document ends among them, after its separator; uint64.
    losses: what was not taken as it stands, kind -> count and first places.
    """

    ids: memoryview
    ends: memoryview
    text_bytes: int
    losses: dict[str, KindTally] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)

    def __reduce__(self) -> tuple[Any, ...]:
        whole = self.ids.tobytes(), self.ids.format, self.ends.tobytes()
        return _restored, (*whole, self.text_bytes, self.losses)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        at = range(len(self))[index]
        return self.ids[self.ends[at - 1] if at else 0 : self.ends[at]]

    def __iter__(self) -> Iterator[memoryview]:
        start = 0
        for end in self.ends:
            yield self.ids[start:end]
            start = end


def _restored(ids: bytes, code: Any, ends: bytes, *rest: Any) -> EncodedFiles:
    """What was pickled."""
    return EncodedFiles(memoryview(ids).cast(code), memoryview(ends).cast("Q"), *rest)


def encode_files(
    inputs: str | PathLike[str] | Sequence[str | PathLike[str]],
    tokenizer: Tokenizer | str | PathLike[str] | Remote,
    **options: Any,
) -> EncodedFiles:
    """Return the ids of a corpus in memory: those that `encode_corpus` writes, document by document.

    inputs: files, directories, globs and URIs, of all formats that training reads. tokenizer: one, or where one lies.
    options: `documents="separator"` (or "offsets": no id stands between documents), `separator="<|endoftext|>"`,
        `workers` (threads; default: all cores, but one for a pattern that the `regex` package runs, which two cannot do
        at a time), `errors`, `fail_on_loss`, `memory_limit` of what is beside the result, `chunk_size`,
        `pattern_timeout`, `text_field`, `input_format`, `compression`; see `pipeline.run.options.Options`.

    Memory: 2 or 4 bytes an id and up to an eighth more, 8 bytes a document, beside a known amount. What was lost is in
    the result. Raises as `encode_corpus` does.
    """
    refuse_unfit(options, OF_TRAINING | _OF_SHARDS, "encoding in memory")
    settled = make_options({"inputs": inputs, **options})
    if settled.inputs is None or "-" in settled.inputs:
        raise UsageError(
            "encode_files takes the names of files: give some, and read standard input with encode_iterable"
        )
    model = tokenizer.model if isinstance(tokenizer, Tokenizer) else load_model(named(tokenizer))
    if on_regex(model.pattern):
        warn_of(Notice("warning", f"the pattern runs on the regex package, slower: {model.pattern.refusal}"))
    listing = list_corpus(settled, warn_of)
    width = id_bytes(dtype_of(model))
    plan = cut_corpus(Plan(empty=listing.empty), listing.files, model, settled)
    ids, ends = bytearray(), array("Q")
    lost, text_bytes = [plan.files_without_text()], 0
    with closing(_encode_chunks(model, settled, plan)) as parts:
        for part in parts:
            first = len(ids) // width
            for block in part.ids:
                ids += block
            ends.extend(first + end for block in part.ends for end in block)
            lost.append(part.statistics.losses)
            text_bytes += part.statistics.bytes
    found = add_up(lost)
    if settled.fail_on_loss and found:
        raise fail_on_loss_error(in_words(found))
    whole = memoryview(ids).cast("H" if width == 2 else "I")
    return EncodedFiles(whole.toreadonly(), memoryview(ends).toreadonly(), text_bytes, found)


@dataclass
class _IdsInMemory:
    """The ids of one chunk; a `Sink`, which takes nothing any more when nobody wants it."""

    given_up: Event
    ids: list[memoryview] = field(default_factory=list)
    ends: list[memoryview] = field(default_factory=list)
    statistics: ChunkStatistics = field(default_factory=ChunkStatistics)

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """One more block."""
        if self.given_up.is_set():
            raise CancelledError
        self.ids.append(ids)
        self.ends.append(ends)


def _encode_chunks(model: Model, options: Options, plan: Plan) -> Generator[_IdsInMemory, None, None]:
    """Encode all chunks by threads; gives the ids of each, in the order of the corpus, as soon as they are there."""
    separator = separator_of(model, options)
    if on_regex(model.pattern):
        options = replace(options, workers=1)
    workers = encoding_workers(options, model, len(plan.chunks))
    threads = workers.count
    encoder = model.encoder(cache_bytes=threads * workers.cache_bytes, threads=threads)
    special_tokens = model.vocabulary.special_tokens
    task = partial(
        IdsTask,
        pattern=replace(model.pattern, timeout_s=options.pattern_timeout),
        text_field=options.text_field,
        special_tokens=special_bytes(model),
        special_ids=tuple(special_tokens.values()),
        errors=options.errors,
        budget_bytes=workers.text_bytes,
        limit_bytes=workers.limit_bytes,
        workers=threads,
        separator=None if separator is None else special_tokens[separator],
        separators=options.documents == "separator",
        id_bytes=id_bytes(dtype_of(model)),
    )

    def encode(index: int) -> _IdsInMemory:
        ids = _IdsInMemory(given_up)
        ids.statistics = make_ids(task(name=f"chunk {index}", spans=plan.spans(index)), model, encoder, ids)
        return ids

    given_up = Event()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="encode_files")
    try:
        yield from pool.map(encode, range(len(plan.chunks)))
    finally:
        given_up.set()  # by an error or an interruption: threads end with the block that they are at
        pool.shutdown(cancel_futures=True)
