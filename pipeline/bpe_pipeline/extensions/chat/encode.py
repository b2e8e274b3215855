"""`encode-chat`: chat data become rows of ids and labels for fine-tuning; `encode_chat` does so in memory.

Workers encode chunks of rows into parts, each a checkpoint; then rows are put in order, packed, and written to shards.
What they hold depends on data sets, tokenizer, template and options alone: not on workers, chunk size or kills.
"""

import logging
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain, pairwise, repeat
from operator import add
from typing import Any, Literal

from bpe_pipeline.base.errors import InputError, UsageError, unfit
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands.encode import finished_corpus, saved_result, summary_of, summary_of_part, total_of
from bpe_pipeline.corpus.skipped_or_altered import Tally, in_words
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.chat.assemble_worker import MAKING_BYTES, AssemblyTask, write_rows
from bpe_pipeline.extensions.chat.comparison import Comparison
from bpe_pipeline.extensions.chat.encoder import ID_BYTES, ChatEncoder
from bpe_pipeline.extensions.chat.kinds import NO_ANSWER, SPECIAL_TOKENS
from bpe_pipeline.extensions.chat.lengths import ROWS, Conversations
from bpe_pipeline.extensions.chat.marks import with_marks
from bpe_pipeline.extensions.chat.mixing import assemble, cut, order_rows, split_at_random
from bpe_pipeline.extensions.chat.options import PUBLISHED_DATE, ChatOptions, date_of
from bpe_pipeline.extensions.chat.plan import Chat, named_data_sets, open_chat, require_fitting
from bpe_pipeline.extensions.chat.rows_worker import (
    MOST_CACHE_BYTES,
    RowsTask,
    budget_of,
    encode_rows,
    first_conversations,
    hash_rows,
)
from bpe_pipeline.reports.encoding import EncodingSummary
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.plan import Plan
from bpe_pipeline.run.runner import Runner, Stage, opened
from bpe_pipeline.run.stored import plain, stored
from bpe_pipeline.shards import manifest
from bpe_pipeline.shards.chunk_file import EncodedChunk, open_part
from bpe_pipeline.shards.encode import Writing, warn_of_empty, write_missing, writers
from bpe_pipeline.shards.encode_worker import packed
from bpe_pipeline.shards.encoded_corpus import RESULT, EncodedCorpus, FileFacts
from bpe_pipeline.shards.encoding_tasks import EncodingWorkers, encoding_stage, encoding_workers
from bpe_pipeline.shards.formats.shard_format import ShardFacts
from bpe_pipeline.shards.manifest import Encoding, holds_out, kind_of
from bpe_pipeline.shards.packing import LongRow
from bpe_pipeline.shards.plan import model_of
from bpe_pipeline.shards.route import hash_held_out
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.named_templates import template_named
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

_log = logging.getLogger(__name__)
_HOLDING_OUT_STAGE = "choosing validation"
_CONVERSATIONS = "conversations as align_chat returns them: mappings with a list of messages"
_ALIGNED = 'conversations as align_chat(row, formatting="messages") returns them, without tool_calls and lists of tools'


def encode_chat(
    conversations: Iterable[Mapping[str, Any]],
    tokenizer: Tokenizer | AnyPath,
    template: str = "llama3",
    sequence_length: int = 4096,
    train_on_prompt: bool = False,
    mask_history: bool = False,
    default_system: str | None = None,
    enable_thinking: bool | None = True,
    preserve_thinking: bool = False,
    special_tokens_in_messages: Literal["text", "tokens", "refuse"] = "text",
    date: str = PUBLISHED_DATE,
) -> Iterator[dict[str, list[int]]]:
    """Iterate over the ids and labels of conversations, as LLaMA-Factory 0.9.5 makes them.

    Other arguments are those of the command `encode-chat`.

    >>> dialog = {"messages": [{"role": "user", "content": "low"}, {"role": "assistant", "content": "er"}]}
    >>> next(bpe_pipeline.encode_chat([dialog], tokenizer, template="empty"))
    {'input_ids': [257, 258], 'labels': [-100, 258]}

    Args:
        conversations: as `align_chat` returns them: "messages", and perhaps "system" and "tools" (JSON).
        tokenizer: a tokenizer, or the path or URI of one.
        template: a name (llama3, chatml, qwen, qwen3, mistral, gemma, deepseek3, alpaca, default, ...), "tokenizer"
            (its own; a warning says where another differs), or a file: Jinja, or slots in YAML.
        sequence_length: most ids of a row; of a longer one, each question and answer keeps its share. Rows are not
            padded. The command's default is 2,048, as LLaMA-Factory's.
        train_on_prompt: as in `encode-chat`.
        mask_history: as in `encode-chat`.
        default_system: as in `encode-chat`.
        enable_thinking: for reasoning templates: an answer without a thought gets an empty one, which is trained on
            (True) or masked (None, False); False also removes all thoughts.
        preserve_thinking: whether `mask_history` keeps thoughts of earlier answers.
        special_tokens_in_messages: as in `encode-chat`; a warning counts them.
        date: as in `encode-chat`.

    Returns:
        An iterator of "input_ids" and "labels" (-100: not trained on). Conversations that are not pairs of a question
        and an answer are left out; at the end, a warning says what was dropped or altered.

    Raises:
        UsageError: the template is unknown or has marks that the tokenizer lacks, or options exclude each other.
        SpecialTokenError: a message contains a special token, which is refused.
        InputError: a conversation is none, or calls tools as OpenAI's messages do, unread by `align_chat`.
    """
    if isinstance(conversations, str | bytes | Mapping) or not isinstance(conversations, Iterable):
        raise unfit("conversations", _CONVERSATIONS, conversations)
    keywords = {
        "sequence_length": sequence_length,
        "train_on_prompt": train_on_prompt,
        "mask_history": mask_history,
        "default_system": default_system,
        "enable_thinking": "null" if enable_thinking is None else enable_thinking,
        "preserve_thinking": preserve_thinking,
        "date": date,
        "special_tokens_in_messages": special_tokens_in_messages,
    }
    options = make_options(ChatOptions, keywords, str)
    model = model_of(tokenizer, conversations)
    slots = template_named(template, model)
    require_fitting(slots, model, options)
    options = replace(options, sequence_length=options.sequence_length or 4096, date=date_of(options.date))
    return _rows(ChatEncoder(slots, model, options), Comparison(slots, model, options), conversations)


def _rows(
    encoder: ChatEncoder, comparison: Comparison, conversations: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, list[int]]]:
    tally = Tally()
    for number, conversation in enumerate(conversations):
        where = f"conversation {number}"
        if not isinstance(conversation, Mapping) or not isinstance(conversation.get("messages", ()), Sequence):
            raise unfit("conversations", _CONVERSATIONS, conversation)
        if _calls_unread(conversation):
            raise unfit("conversations", _ALIGNED, conversation)
        row = None
        with encoder.noting(tally, where):
            row = encoder.encode(with_marks(conversation))
        if row is not None:
            if differs := comparison.difference(conversation, where):
                _log.warning("encode_chat: %s", differs)
            ids, labels = (array("i", column).tolist() for column in row)
            yield {"input_ids": ids, "labels": labels}
    for kind in in_words(tally.kinds):
        _log.warning("encode_chat: %s", kind)


def _calls_unread(conversation: Mapping[str, Any]) -> bool:
    """Return whether a conversation has tools, or calls of them, as OpenAI's messages have: they would be lost."""
    calls = ("tool_calls", "function_call")
    messages = (message for message in conversation.get("messages", ()) if isinstance(message, Mapping))
    called = any(message.get(name) for message in messages for name in calls)
    return called or not isinstance(conversation.get("tools"), str | None)


def encode_conversations(
    runner: Runner, encoding: Encoding, model: Model, chat: Chat, workers: EncodingWorkers
) -> list[EncodedChunk]:
    """Encode the chunks without parts; returns all parts, in order."""
    plan = encoding.plan
    owners = {file.path: owner for file, owner in zip(plan.files, plan.owners, strict=True)}
    broadcast = runner.executor.broadcast(packed(model))

    def task_of(**chunk: Any) -> RowsTask:
        return RowsTask(
            **chunk,
            data_set=chat.sets[owners[chunk["spans"][0].file.path]],
            template=chat.template,
            options=chat.options,
            model=broadcast,
            tokenizer=encoding.options["tokenizer"],
            cache_bytes=workers.cache_bytes,
            budget_bytes=workers.text_bytes,
            grant=workers.grant,
        )

    return runner.run(encoding_stage(encoding, encode_rows, task_of, workers.grant))


def write_conversations(runner: Runner, encoding: Encoding, chat: Chat) -> tuple[list[ShardFacts], list[FileFacts]]:
    """Put the rows in order, pack them, and write the shards that are missing; returns all files."""
    lengths, firsts = _lengths(encoding)
    options, row_tokens, wanted = chat.options, chat.layout.row_tokens, [data_set.num_samples for data_set in chat.sets]
    sizes = [0] * len(chat.sets)
    for index, (first, after) in enumerate(pairwise(firsts)):
        sizes[encoding.plan.owner(index)] += after - first
    order = order_rows(sizes, options, wanted)
    splits = {"train": order}
    if holds_out(vars(options)):
        if options.val_size:
            train, validation = split_at_random(order, options)
        else:
            train, validation = _split_by_hash(runner, encoding, chat, order, lengths, firsts)
        splits = {"train": train, "validation": validation}
    capacity = options.sequence_length if chat.pack else None
    parts = tuple(zip(encoding.parts(), firsts, strict=False))
    pad = chat.pad_id.to_bytes(ID_BYTES, "little")
    tasks, longest = {}, row_tokens or max(lengths, default=0)
    for name, split_rows in splits.items():
        rows, ends = assemble(split_rows, lengths, capacity, compatible=options.compatible)
        of_bags = repeat(row_tokens, len(ends)) if row_tokens else (lengths[row] for row in rows)
        shards = cut(rows, ends, of_bags, options.shard_size)
        task = partial(AssemblyTask, pack=chat.pack, pad=pad, parts=parts, longest=longest)
        tasks[name] = [partial(task, rows=shard.tobytes(), ends=stops.tobytes()) for shard, stops in shards]
    long_row = LongRow(longest, longest, MAKING_BYTES)
    writing = Writing(write_rows, tasks, "conversations", lambda task: task.conversations, long_row)
    return write_missing(runner, encoding, chat.layout, writing)


def _split_by_hash(
    runner: Runner, encoding: Encoding, chat: Chat, order: "array[int]", lengths: "array[int]", firsts: list[int]
) -> "tuple[array[int], array[int]]":
    """Return the rows for training, and for validation those with small hashes, each once."""
    sizes = [sum(lengths[first:after]) for first, after in pairwise(firsts)]
    parts = encoding.parts()
    grant = writers(runner, len(parts))
    hashed = runner.run(Stage(_HOLDING_OUT_STAGE, "tokens", hash_rows, parts, sizes, grant=grant))
    hashes, kept = array("Q", chain(*hashed)), bytearray(len(lengths))
    for row in order:
        kept[row] = lengths[row] > 0
    below = hash_held_out(vars(chat.options))
    train = array("Q", (row for row in order if kept[row] and hashes[row] >= below))
    validation = array("Q", dict.fromkeys(row for row in order if kept[row] and hashes[row] < below))
    warn_of_empty(runner, vars(chat.options), format_count(sum(kept), "conversations"), (len(train), len(validation)))
    return train, validation


def _lengths(encoding: Encoding) -> "tuple[array[int], list[int]]":
    """Return the ids of each row, 0 for one that was dropped, and the number of the first row of each part."""
    lengths, firsts = array("I"), []
    for part in encoding.parts():
        firsts.append(len(lengths))
        with open_part(part) as reader:
            for before, end in pairwise(chain([0], *reader.ends())):
                lengths.append((end - before) // 2)
    return lengths, [*firsts, len(lengths)]


_WARNED = {
    NO_ANSWER: ": the model learns to say nothing there",
    SPECIAL_TOKENS["text"]: "; LLaMA-Factory takes them as special tokens: --special-tokens-in-messages tokens",
    SPECIAL_TOKENS["tokens"]: ": a message can end its own turn; --special-tokens-in-messages text prevents it",
}


def run_encode_chat(options: ChatOptions, model: Model, executor: Executor, listener: Listener) -> EncodingSummary:
    """Encode the data sets and write their shards, except what the directory holds already."""
    data_sets = named_data_sets(options)
    if options.output is None or not (options.inputs or data_sets):
        raise UsageError("encoding chat data takes INPUT, or --dataset-info and --dataset, and --output")
    kind = kind_of(options.shard_format, validation=holds_out(vars(options)))
    with opened(options, executor, listener, kind=kind) as (runner, directory):
        encoding, chat = open_chat(runner, directory, options, model, data_sets)
        with runner.logged(directory, options, lambda: manifest.remove_partial(encoding)):
            if runner.part is not None:
                encode = partial(_encode_rows, runner, encoding, model, chat)
                return summary_of_part(runner, encoding, model, options, encode)
            corpus = finished_corpus(runner, encoding)
            corpus = corpus or _encode(runner, encoding, model, chat)
            directory.remove(encoding.owned_parts())
            return summary_of(runner, directory.location, corpus)


def _look(runner: Runner, plan: Plan, model: Model, chat: Chat, workers: EncodingWorkers) -> None:
    """Read the first rows: require the columns of data sets, and warn where the template differs from the tokenizer's.

    It reads as a worker does, in its memory, before there is one.
    """
    budget = budget_of(workers.text_bytes, workers.cache_bytes, workers.grant)
    owned = list(zip(plan.files, plan.owners, strict=True))
    for number, data_set in enumerate(chat.sets):
        data_set.require_columns((file for file, owner in owned if owner == number), budget)
    comparison = Comparison(chat.template, model, chat.options)
    first = chain.from_iterable(first_conversations(file, chat.sets[owner], budget) for file, owner in owned)
    for conversation, where in first if comparison.left else ():
        if differs := comparison.difference(conversation, where):
            runner.warn(differs)
        if not comparison.left:
            break


def _encode_rows(runner: Runner, encoding: Encoding, model: Model, chat: Chat) -> list[EncodedChunk]:
    """Encode what has no parts, after a look at the first rows; returns all parts, or the runner's share."""
    workers = encoding_workers(runner.broker, runner.workers, model, len(encoding.plan.chunks), runner.nodes)
    if workers.grant.given and (spared := workers.cache_bytes - MOST_CACHE_BYTES) > 0:
        workers = replace(workers, cache_bytes=MOST_CACHE_BYTES, text_bytes=workers.text_bytes + spared)
    _look(runner, encoding.plan, model, chat, workers)
    return encode_conversations(runner, encoding, model, chat, workers)


def _encode(runner: Runner, encoding: Encoding, model: Model, chat: Chat) -> EncodedCorpus:
    encoding.directory.remove([RESULT])  # the shards are not complete from here on
    parts = _encode_rows(runner, encoding, model, chat)
    read = sum((part.statistics for part in parts), ChunkStatistics())
    total = total_of(runner, encoding, read, chat.options)
    for altered in in_words(total.losses):
        if altered.kind in _WARNED:
            runner.warn(f"{altered}{_WARNED[altered.kind]}")
    written, index = write_conversations(runner, encoding, chat)
    if not sum(shard.documents for shard in written):
        dropped = "; ".join(map(str, in_words(total.losses))) or "the files have no rows"
        raise InputError(f"no conversation is left to train on: {dropped}; look at the formatting and the tags")
    total = replace(total, bytes=sum(file.size for file in encoding.plan.files))
    separated = {"documents_by": "offsets", "separator": None, "separator_id": None}
    conversations = reduce(add, (stored(Conversations, part.about) for part in parts))
    more = {"pack": chat.pack, "index": tuple(index), "made_by": ROWS, "about": plain(conversations)}
    return saved_result(encoding, model, chat.layout, total, written, **separated, **more)
