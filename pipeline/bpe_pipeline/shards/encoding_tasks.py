"""Encoding chunks: by threads of this process, or by workers to chunk files; and the memory that each has."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bpe_pipeline import _core
from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.executors import Node, ignore
from bpe_pipeline.run.memory import LEAST_WORK_BYTES, Broker
from bpe_pipeline.run.options import EncodeFilesOptions, EncodeOptions
from bpe_pipeline.run.patterns import on_regex
from bpe_pipeline.run.plan import Plan
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.run.workers import worker_count
from bpe_pipeline.shards.blocks import EncodedChunk, Sink, SourceItem, blocks_in_turn
from bpe_pipeline.shards.encode_worker import EncodeTask, IdsTask, ShardsTask, encode_chunk, make_ids, packed
from bpe_pipeline.shards.formats import ID_BYTES
from bpe_pipeline.shards.manifest import Encoding
from bpe_pipeline.storage.atomic import make_directory
from bpe_pipeline.tokenizer.model import Model

ENCODING_STAGE = "encoding"
_MODEL_BYTES_PER_TOKEN = 600  # of a worker: the vocabulary in Python and in the encoder
_LEAST_CACHE_BYTES = 4 << 20
_BUFFER_BYTES = 8 << 20  # a block of text and its ids
LEAST_TEXT_BYTES = 4 << 20  # for a long pre-token
_MOST_WAITING_BYTES = 16 << 20
_MOST_CACHE_BYTES = 96 << 20  # of all workers: more gains nothing measurable in a gigabyte of text
NO_TOKEN = 2**32 - 1  # in place of the separator's id, which is not written
Task = TypeVar("Task", bound=IdsTask)


class Separators(NamedTuple):
    """What ends and separates the documents of a corpus.

    token: the special token that ends a document; becoming: the texts that become it: itself, and what also ended
    documents at training and is no token. ending: the texts by which documents are judged, first these; separating: all
    that separate documents, also tokens that are special.
    """

    token: str | None
    becoming: list[str]
    ending: list[str]
    separating: tuple[bytes, ...]


def separators_of(model: Model, options: EncodeFilesOptions) -> Separators:
    """Return what separates documents for a tokenizer; `UsageError` if its token does not fit."""
    special_tokens = model.vocabulary.special_tokens
    token = model.separator if options.separator is None else options.separator
    if token is None and options.documents == "separator":
        raise UsageError("the tokenizer has no special token to write after each document: choose --documents offsets")
    if token is not None and token not in special_tokens:
        raise UsageError(
            f"--separator {token!r} is not a special token of the tokenizer, which has "
            f"{', '.join(special_tokens) or 'none'}: name one of these"
        )
    becoming = [*([token] if token else []), *(text for text in model.also_ending if text not in special_tokens)]
    ending = list(dict.fromkeys([*becoming, *model.also_ending]))
    separating = dict.fromkeys([*ending, *model.separating])
    return Separators(token, becoming, ending, tuple(text.encode() for text in separating))


def dtype_of(model: Model) -> str:
    """Return the narrower of the two types of ids that holds every id of a model."""
    return "uint16" if model.vocabulary.max_id < 1 << 16 else "uint32"


@dataclass(frozen=True)
class EncodingWorkers:
    """The workers that encode, and parts of what each has for its work: for known pre-tokens, for text, and for ids.

    waiting_bytes: for ids that wait for their turn, if ids are taken in the order of the corpus.
    """

    grant: Grant
    cache_bytes: int
    text_bytes: int
    waiting_bytes: int = 0

    def in_order(self) -> "EncodingWorkers":
        """Return them with memory for ids that wait, which there is less of for text."""
        waiting = min(_MOST_WAITING_BYTES, (self.text_bytes - LEAST_TEXT_BYTES) // 4)
        return replace(self, waiting_bytes=waiting, text_bytes=self.text_bytes - waiting)


def encoding_workers(
    broker: Broker, requested: int | None, model: Model, chunks: int, nodes: Sequence[Node] = ()
) -> EncodingWorkers:
    """Return the workers that encode that many chunks; `UsageError` if not even one has memory for the tokenizer."""
    model_bytes = _MODEL_BYTES_PER_TOKEN * model.vocabulary.size
    least = model_bytes + _LEAST_CACHE_BYTES + _BUFFER_BYTES + LEAST_TEXT_BYTES
    grant = broker.reserve(
        max(least, LEAST_WORK_BYTES),
        what=f"encoding with a tokenizer of {model.vocabulary.size:,} tokens",
        asked=worker_count(requested, chunks, nodes),
        nodes=nodes,
    )
    cache = max(_LEAST_CACHE_BYTES, min(_MOST_CACHE_BYTES // grant.on_one, (grant.bytes - least) // 2))
    return EncodingWorkers(grant, cache, grant.bytes - model_bytes - _BUFFER_BYTES - cache)


def task_of(
    kind: type[Task], model: Model, options: EncodeFilesOptions, workers: EncodingWorkers, /, **settings: Any
) -> "partial[Task]":
    """Return the tasks of this kind, each with these settings but for what differs between chunks."""
    special_tokens, separators = model.vocabulary.special_tokens, separators_of(model, options)
    writes = options.documents == "separator"
    once = writes and model.behind[-1:] == (separators.token,)  # it is also what the tokenizer adds behind
    behind = model.behind[:-1] if once else model.behind
    end = NO_TOKEN if separators.token is None and separators.becoming else model.id_of(separators.token)
    return partial(
        kind,
        pattern=model.pattern,
        text_field=options.text_field,
        special_tokens=separators.separating,
        ending=len(separators.ending),
        ends={} if end is None else dict.fromkeys(separators.becoming, end),
        rules=model.preparation.rules,
        judge=DocumentJudge.of(options.values),
        budget_bytes=workers.text_bytes,
        grant=workers.grant,
        copies=2,  # of more memory, half may go to the cache
        separator=end,
        separators=writes,
        special_tokens_in_text=options.special_tokens_in_text,
        front=[special_tokens[text] for text in model.front],
        behind=[special_tokens[text] for text in behind],
        id_bytes=ID_BYTES[dtype_of(model)],
        **settings,
    )


def ids_by_threads(
    model: Model,
    task: Callable[..., IdsTask],
    plan: Plan,
    workers: EncodingWorkers,
    first: int = 0,
    advance: Callable[[int], object] = ignore,
) -> Generator[SourceItem, None, None]:
    """Yield the blocks of each chunk from the first on, and at its end what was read; `advance` receives bytes of text.

    task: returns the task of what a chunk has of its own. Raises as `make_ids` does.
    """
    threads = workers.grant.count
    encoder = model.encoder(cache_bytes=threads * workers.cache_bytes, threads=threads)

    def task_of_chunk(chunk: int) -> IdsTask:
        return task(name=f"chunk {chunk}", spans=plan.spans(chunk), sizes=plan.sizes(chunk))

    def make(task: IdsTask, sink: Sink) -> ChunkStatistics:
        return make_ids(task, model, encoder, sink)

    chunks = range(first, len(plan.chunks))
    return blocks_in_turn(make, task_of_chunk, chunks, threads, threads * workers.waiting_bytes, advance)


@dataclass(frozen=True)
class ChunkFiles(ABC):
    """The source of blocks that workers make: the file of each chunk, in turn."""

    runner: Runner
    encoding: Encoding

    @abstractmethod
    def stage(self) -> Stage[Any, EncodedChunk]:
        """Return the stage of workers that make the files that are missing, as `encoding_stage` does."""

    def blocks(self, first: int) -> Generator[SourceItem, None, None]:
        """Yield the blocks of each chunk from the first on, and at its end what was read."""
        parts, encoded, stage = self.encoding.parts, dict[int, ChunkStatistics](), self.stage()
        arriving = self.runner.each(stage)
        for chunk in range(first, len(parts)):
            while chunk not in stage.done and chunk not in encoded:
                index, made = next(arriving)
                encoded[index] = made.statistics
            yield from parts[chunk].blocks()
            yield encoded.pop(chunk) if chunk in encoded else parts[chunk].holds().statistics
        next(arriving, None)  # ends the stage

    def stored(self) -> Iterator[EncodedChunk]:
        """Yield what the files of all chunks hold, until the shards are complete."""
        yield from (part.holds() for part in self.encoding.parts)


@dataclass(frozen=True)
class CorpusText(ChunkFiles):
    """The text of a corpus, which threads of this process encode where no files of chunks are needed."""

    model: Model
    options: EncodeOptions

    def stage(self) -> Stage[EncodeTask, EncodedChunk]:
        """Return the stage of workers that encode the chunks of the corpus."""
        runner, encoding = self.runner, self.encoding
        workers = encoding_workers(runner.broker, runner.workers, self.model, len(encoding.plan.chunks), runner.nodes)
        task = task_of(
            EncodeTask,
            self.model,
            self.options,
            workers,
            model=runner.executor.broadcast(packed(self.model)),
            tokenizer=encoding.options["tokenizer"],
            cache_bytes=workers.cache_bytes,
            held_out_from=encoding.plan.held_out_from,
        )
        return encoding_stage(encoding, encode_chunk, task, workers.grant)

    def blocks(self, first: int) -> Generator[SourceItem, None, None]:
        """Yield the blocks of each chunk from the first on, and at its end what was read."""
        plan, model, runner = self.encoding.plan, self.model, self.runner
        has_files = any(chunk >= first for chunk in self.encoding.chunks_there())
        is_local = isinstance(self.encoding.directory.location, Path)
        if runner.nodes or has_files or on_regex(model.pattern) or not is_local:
            yield from super().blocks(first)
            return
        done = sum(chunk.bytes for chunk in plan.chunks[:first])
        workers = encoding_workers(runner.broker, runner.workers, model, len(plan.chunks)).in_order()
        task = task_of(ShardsTask, model, self.options, workers, held_out_from=plan.held_out_from)
        with runner.reporting(ENCODING_STAGE, plan.bytes, "bytes", done, kept="encoded") as advance:
            yield from ids_by_threads(model, task, plan, workers, first, advance)
        _core.give_back_memory()


def encoding_stage(
    encoding: Encoding, encode: Callable[[Any], EncodedChunk], task_of_chunk: Callable[..., Any], workers: Grant
) -> Stage[Any, EncodedChunk]:
    """Return the stage that makes the chunk files that are missing, each by a task of what a chunk has of its own."""
    encoding.directory.require_lock()
    make_directory(encoding.directory / "parts")
    return Stage(
        ENCODING_STAGE,
        "bytes",
        encode,
        encoding.plan.tasks(task_of_chunk, encoding.parts),
        weights=[chunk.bytes for chunk in encoding.plan.chunks],
        done=encoding.chunks_there(),
        kept="encoded",
        grant=workers,
    )
