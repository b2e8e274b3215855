"""`encode-chat`: chat data become rows of ids and labels for fine-tuning; `encode_chat` does so in memory.

Workers encode chunks of rows into parts, each a checkpoint; then rows are packed and written to shards. What they hold
depends on data sets, tokenizer, template and options alone: not on workers, chunk size or kills.
"""

import logging
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Literal

from bpe_pipeline.base.errors import InputError, UsageError, unfit
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands.encode import ShardsJob, run_job
from bpe_pipeline.corpus.skipped_or_altered import Tally, in_words
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.chat.about import NO_ANSWER, SPECIAL_TOKENS, Conversations
from bpe_pipeline.extensions.chat.align import dialog_of
from bpe_pipeline.extensions.chat.encoder import ChatEncoder, with_template
from bpe_pipeline.extensions.chat.options import ChatOptions
from bpe_pipeline.extensions.chat.plan import Chat, named_data_sets, open_chat, require_fitting
from bpe_pipeline.extensions.chat.rows_worker import ChatData
from bpe_pipeline.extensions.chat.training_rows import ConversationRows
from bpe_pipeline.reports.encoding import EncodingSummary
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.runner import opened
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.shards.manifest import kind_of
from bpe_pipeline.shards.plan import model_of
from bpe_pipeline.tokenizer.chat_templates import render
from bpe_pipeline.tokenizer.model import ChatTemplate, Model
from bpe_pipeline.tokenizer.named_templates import OWN, chat_template_named
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

_log = logging.getLogger(__name__)
_IDS = (1 << 31) - 1  # the bits of an id in a value
_PROBE = [{"role": role, "content": role.title()} for role in ("user", "assistant")]
_WARNED = {
    NO_ANSWER: ": the model learns to say nothing there",
    SPECIAL_TOKENS["text"]: "; apply_chat_template takes them as special tokens: --special-tokens-in-messages tokens",
    SPECIAL_TOKENS["tokens"]: ": a message can end its own turn; --special-tokens-in-messages text prevents it",
}


def encode_chat(
    rows: Iterable[Mapping[str, Any]],
    tokenizer: Tokenizer | AnyPath,
    template: str = "tokenizer",
    sequence_length: int = 4096,
    template_kwargs: Mapping[str, Any] | None = None,
    train_on_prompt: bool = False,
    mask_history: bool = False,
    special_tokens_in_messages: Literal["text", "tokens", "refuse"] = "text",
) -> Iterator[dict[str, list[int]]]:
    """Iterate over the ids and labels of conversations, those of transformers' `apply_chat_template`.

    Other arguments are those of the command `encode-chat`.

    >>> row = {"messages": [{"role": "user", "content": "low"}, {"role": "assistant", "content": "er"}]}
    >>> next(bpe_pipeline.encode_chat([row], tokenizer, template="empty"))
    {'input_ids': [257, 258], 'labels': [-100, 258]}

    Args:
        rows: as in files: messages, conversations, or instruction and output; `compat.align_chat` reads other names.
        tokenizer: a tokenizer, or the path or URI of one.
        template: "tokenizer" (its own), a name (llama3, chatml, qwen, ...), or a file in Jinja.
        sequence_length: most ids of a row; of a longer one, each question and answer keeps its share. Rows are not
            padded. The command's default is 2,048.
        template_kwargs: as in `encode-chat`.
        train_on_prompt: as in `encode-chat`.
        mask_history: as in `encode-chat`.
        special_tokens_in_messages: as in `encode-chat`; a warning counts them.

    Returns:
        An iterator of "input_ids" and "labels" (-100: not trained on). Rows that the template does not take, and rows
        without an answer, are left out; at the end, a warning says what was dropped or altered.

    Raises:
        UsageError: the template is unknown or has marks that the tokenizer lacks, or options exclude each other.
        SpecialTokenError: a message contains a special token, which is refused.
        InputError: a row is no mapping.
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise unfit("rows", "rows of chat data: mappings with messages", rows)
    keywords = {
        "sequence_length": sequence_length,
        "train_on_prompt": train_on_prompt,
        "mask_history": mask_history,
        "template_kwargs": template_kwargs,
        "special_tokens_in_messages": special_tokens_in_messages,
    }
    options = make_options(ChatOptions, keywords, str)
    model = model_of(tokenizer, rows)
    chat_template = chat_template_named(template, model)
    require_fitting(options)
    if differs := _difference(template, chat_template, model):
        _log.warning("encode_chat: %s", differs)
    options = options.replace(sequence_length=options.sequence_length or 4096)
    return _rows(ChatEncoder(with_template(model, chat_template), options), rows)


def _rows(encoder: ChatEncoder, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, list[int]]]:
    tally = Tally()
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise unfit("rows", "rows of chat data: mappings with messages", row)
        values = array("i")
        with encoder.noting(tally, f"row {number}"):
            values.frombytes(encoder.encode(dialog_of(row)).values)
        if values:
            ids = [value & _IDS for value in values]
            labels = [id_ if value < 0 else -100 for id_, value in zip(ids, values, strict=True)]
            yield {"input_ids": ids, "labels": labels}
    for kind in in_words(tally.kinds):
        _log.warning("encode_chat: %s", kind)


def _difference(name: str, template: ChatTemplate, model: Model) -> str:
    """Return how a template writes a short dialog otherwise than the tokenizer's own, or nothing."""
    if model.chat_template in (None, template):
        return ""
    texts = []
    for model_with in (with_template(model, template), model):
        try:
            texts.append(render(model_with, _PROBE, add_generation_prompt=False))
        except UsageError:  # a template may want other dialogs
            return ""
    if texts[0] == texts[1]:
        return ""
    ours, own = texts
    return f"template {name} writes {ours!r}, and the tokenizer's own writes {own!r}: --template {OWN} takes its own"


@dataclass(frozen=True)
class _ChatJob(ShardsJob):
    """The conversations of data sets. chat: all that decides their rows."""

    chat: Chat

    def source(self) -> ChatData:
        """Return the data sets."""
        return ChatData(self.runner, self.encoding, self.model, self.chat)

    def rows(self) -> ConversationRows:
        """Return the rows of training."""
        return self.chat.rows

    def accepted(self, total: ChunkStatistics, documents: int) -> ChunkStatistics:
        """Return what was read, and warn of it; `InputError` if no conversation is left."""
        for altered in in_words(total.losses):
            if altered.kind in _WARNED:
                self.runner.warn(f"{altered}{_WARNED[altered.kind]}")
        if not documents:
            dropped = "; ".join(map(str, in_words(total.losses))) or "the files have no rows"
            raise InputError(
                f"no conversation is left to train on: {dropped}; chat data have messages, conversations, or "
                "instruction and output: say what they are with --dataset-info and --dataset"
            )
        return replace(total, bytes=sum(file.size for file in self.encoding.plan.files))

    def facts(self, _: ChunkStatistics, documents: int) -> dict[str, Any]:  # noqa: ARG002 - a job's
        """Return how rows are packed, and the lengths of conversations."""
        of_chunks = [stored(Conversations, chunk.about) for chunk in self.source().stored()]
        return {
            "documents_by": "offsets",
            "separator": None,
            "separator_id": None,
            "pack": self.chat.rows.pack if self.chat.rows.layout.row_tokens else None,
            "made_by": "chat",
            "about": plain(reduce(add, of_chunks)),
        }

    def whole(self, documents: int) -> tuple[str, str]:
        """Return what is held out of, and what helps where one side is empty, besides another share."""
        return f"the {format_count(documents, 'conversations')}", ", or more conversations"


def run_encode_chat(options: ChatOptions, model: Model, executor: Executor, listener: Listener) -> EncodingSummary:
    """Encode the data sets and write their shards, except what the directory holds already."""
    data_sets = named_data_sets(options)
    assert options.output is not None, "the data sets are not read without it"
    kind = kind_of(options.values)
    with opened(options, executor, listener, kind=kind) as (runner, directory):
        encoding, chat = open_chat(runner, directory, options, model, data_sets)
        runner.warn(_difference(options.template, chat.template, model))
        return run_job(_ChatJob(runner, encoding, model, options, chat))
