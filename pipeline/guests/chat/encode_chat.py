"""`encode-chat`: chat data become rows of ids and labels for fine-tuning.

Workers encode chunks of rows into parts, each a checkpoint; then rows are put in order, packed, and written to shards.
What they hold depends on data sets, tokenizer, template and options alone: not on workers, chunk size or kills.
"""

from dataclasses import replace

from pipeline.base.errors import InputError, UsageError
from pipeline.base.events import Listener
from pipeline.commands.encode import finished_corpus, saved_result, summary_of, total_of
from pipeline.corpus.skipped_or_altered import in_words
from pipeline.executors import Executor
from pipeline.guests.chat.dataset import DataSet
from pipeline.guests.chat.encoder import NO_ANSWER, SPECIAL_TOKENS
from pipeline.guests.chat.plan import Chat, named_data_sets, open_chat
from pipeline.guests.chat.shards import encode_conversations, write_conversations
from pipeline.reports.summary import EncodingSummary
from pipeline.run.options import ChatOptions
from pipeline.run.runner import Runner, opened
from pipeline.shards import manifest
from pipeline.shards.manifest import EncodedCorpus, Encoding, kind_of
from pipeline.tokenizer.model import Model

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
    kind = kind_of(options.shard_format, validation=options.val_size > 0)
    with opened(options, executor, listener, kind=kind) as (runner, directory):
        encoding, chat, sets = open_chat(runner, directory, options, model, data_sets)
        with runner.logged(directory, options, lambda: manifest.remove_partial(encoding)):
            corpus = finished_corpus(runner, encoding)
            corpus = corpus or _encode(runner, encoding, model, options, chat, sets)
            directory.remove(encoding.owned_parts())
            return summary_of(runner, directory.location, corpus)


def _encode(
    runner: Runner, encoding: Encoding, model: Model, options: ChatOptions, chat: Chat, sets: list[DataSet]
) -> EncodedCorpus:
    encoding.directory.remove([manifest.RESULT])  # the shards are not complete from here on
    parts = encode_conversations(runner, encoding, model, chat, sets)
    total = total_of(runner, encoding, parts, options)
    for one in in_words({kind: found for kind, found in total.losses.items() if kind in _WARNED}):
        runner.warn(f"{one}{_WARNED[one.kind]}")
    written, index = write_conversations(runner, encoding, chat, sets)
    if not sum(shard.documents for shard in written):
        dropped = "; ".join(map(str, in_words(total.losses))) or "the files have no rows"
        raise InputError(f"no conversation is left to learn from: {dropped}; look at the formatting and the tags")
    pack = None if chat.pack == "none" else chat.pack
    total = replace(total, bytes=sum(file.size for file in encoding.plan.files))
    separated = {"documents_by": "offsets", "separator": None, "separator_id": None}
    return saved_result(encoding, model, chat.layout, total, written, **separated, pack=pack, index=tuple(index))
