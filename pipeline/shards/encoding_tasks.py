"""The workers that encode, the memory that each has, and what all of their tasks have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from pipeline.base.memory import Grant
from pipeline.corpus.documents import DocumentJudge
from pipeline.executors import Node
from pipeline.run.memory import LEAST_WORK_BYTES, Broker
from pipeline.run.options import EncodeFilesOptions
from pipeline.run.workers import worker_count
from pipeline.shards.encode_worker import IdsTask
from pipeline.shards.formats.shard_format import ID_BYTES
from pipeline.shards.plan import dtype_of, separating_tokens, separator_of
from pipeline.tokenizer.model import CACHE_BYTES, Model

_MODEL_BYTES_PER_TOKEN = 600  # of a worker: the vocabulary in Python and in the encoder
_LEAST_CACHE_BYTES = 4 << 20
_BUFFER_BYTES = 8 << 20  # a block of text and its ids
LEAST_TEXT_BYTES = 4 << 20  # for a long piece
Task = TypeVar("Task", bound=IdsTask)


@dataclass(frozen=True)
class EncodingWorkers:
    """The workers that encode, and two parts of what each has for its work: for known pieces, and for text."""

    grant: Grant
    cache_bytes: int
    text_bytes: int


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
    cache = max(_LEAST_CACHE_BYTES, min(CACHE_BYTES // grant.on_one, (grant.bytes - least) // 2))
    return EncodingWorkers(grant, cache, grant.bytes - model_bytes - _BUFFER_BYTES - cache)


def task_of(
    kind: type[Task], model: Model, options: EncodeFilesOptions, workers: EncodingWorkers, /, **settings: Any
) -> "partial[Task]":
    """Return the tasks of this kind, each with these settings but for what differs between chunks."""
    special_tokens, separator = model.vocabulary.special_tokens, separator_of(model, options)
    separators = options.documents == "separator"
    once = separators and model.behind[-1:] == (separator,)  # the separator is also what the tokenizer adds behind
    behind = model.behind[:-1] if once else model.behind
    return partial(
        kind,
        pattern=replace(model.pattern, timeout_s=options.pattern_timeout),
        text_field=options.text_field,
        special_tokens=separating_tokens(model, separator),
        rules=model.preparation.rules,
        judge=DocumentJudge.of(vars(options)),
        budget_bytes=workers.text_bytes,
        grant=workers.grant,
        copies=2,  # of more memory, half may go to the cache
        separator=model.id_of(separator),
        separators=separators,
        special_tokens_in_text=options.special_tokens_in_text,
        front=[special_tokens[text] for text in model.front],
        behind=[special_tokens[text] for text in behind],
        id_bytes=ID_BYTES[dtype_of(model)],
        **settings,
    )
