"""`encode --output`: a corpus becomes shards of token ids.

What the shards hold depends on corpus, tokenizer and options alone: not on workers, chunk size, memory or kills.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.printable import columns_of
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands.named_tokenizer import used_of
from bpe_pipeline.corpus.skipped_or_altered import KINDS, fail_on_loss_error, in_words, warnings_of
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.counted import no_text_error
from bpe_pipeline.executors import Executor
from bpe_pipeline.reports.encoding import EncodingSummary
from bpe_pipeline.run.directory import LOG
from bpe_pipeline.run.options import RECORDS, CorpusOptions, EncodeOptions, ShardsOptions
from bpe_pipeline.run.parts import PartDone
from bpe_pipeline.run.patterns import slowness
from bpe_pipeline.run.runner import Runner, opened
from bpe_pipeline.shards import manifest
from bpe_pipeline.shards import plan as planning
from bpe_pipeline.shards.chunk_file import EncodedChunk
from bpe_pipeline.shards.encode import WRITING_STAGE, damaged_file, write_shards
from bpe_pipeline.shards.encoded_corpus import RESULT, EncodedCorpus, load_result
from bpe_pipeline.shards.encoding_tasks import ENCODING_STAGE, corpus_stage
from bpe_pipeline.shards.formats.shard_format import Layout, ShardFacts
from bpe_pipeline.shards.manifest import ORDER_OPTIONS, Encoding, holds_out, kind_of
from bpe_pipeline.shards.road import ORDERING_STAGE
from bpe_pipeline.storage import Location, existing
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

_NAMED = 3  # files of others in a warning


def encode_with(
    tokenizer: Tokenizer | Location, options: EncodeOptions, executor: Executor, listener: Listener
) -> EncodingSummary:
    """Encode with a tokenizer, or with the one at a location."""
    inputs = options.inputs or ()
    model = planning.model_of(tokenizer, inputs[0] if len(inputs) == 1 else inputs)
    summary = run_encode(options, model, executor, listener)
    if not isinstance(tokenizer, Tokenizer):
        home, others = used_of(tokenizer)
        summary = replace(summary, tokenizer=home, others=others)
    listener(Notice("summary", summary.text(columns_of(sys.stderr))))
    return summary


def run_encode(options: EncodeOptions, model: Model, executor: Executor, listener: Listener) -> EncodingSummary:
    """Encode the corpus and write its shards, except what the directory holds already."""
    if options.inputs is None or options.output is None:
        raise UsageError("encoding a corpus takes INPUT and --output: name files, and a directory for the shards")
    model, output = planning.with_bos(model, options), options.output
    planning.require_one_search(model, options)
    planning.require_fitting_format(options)
    kind = kind_of(options.shard_format, validation=holds_out(vars(options)), single=options.single)
    with opened(options, executor, listener, kind=kind) as (runner, directory):
        encoding = planning.open_encoding(
            runner,
            directory,
            options,
            planning.asked_of(options, model),
            partial(planning.cut_corpus, model=model, options=options, nodes=runner.nodes),
        )
        options = replace(options, sample=encoding.options["sample"])
        with runner.logged(directory, options, lambda: manifest.remove_partial(encoding)):
            if runner.part is not None:
                runner.warn(slowness(model.pattern))
                return summary_of_part(
                    runner,
                    encoding,
                    model,
                    options,
                    lambda: runner.run(corpus_stage(runner, encoding, model, options)),
                )
            corpus = finished_corpus(runner, encoding) or _encode(runner, encoding, model, options)
            encoding.remove_working()
            warn_of_others(runner, encoding, corpus)
        return summary_of(runner, output, corpus)


def warn_of_others(runner: Runner, encoding: Encoding, corpus: EncodedCorpus) -> None:
    """Warn where a finished directory of shards holds files of others, such as shards that no manifest lists."""
    directory, names = encoding.directory, corpus.file_names()
    own = {directory.kind.manifest, RESULT, LOG, "parts", *names, *(name.partition("/")[0] for name in names)}
    found = [] if encoding.single else directory.names_in(directory.location)
    for split in sorted({name.partition("/")[0] for name in names if "/" in name and not encoding.single}):
        found += [f"{split}/{name}" for name in directory.names_in(directory / split)]
    others = [name for name in found if name not in own and not name.startswith(".")]
    if others:
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        runner.warn(
            f"{directory} also holds {', '.join(others[:_NAMED])}{more}, which is no part of these shards: what reads "
            "all files there reads it, too; remove it, or choose another --output"
        )


def summary_of(runner: Runner, output: Location, corpus: EncodedCorpus) -> EncodingSummary:
    """Return the result of the command."""
    runner.watch.look()
    executor = runner.executor
    return EncodingSummary(output, corpus, runner.times, runner.watch.peak_bytes, executor.retries, executor.used())


def summary_of_part(
    runner: Runner,
    encoding: Encoding,
    model: Model,
    options: ShardsOptions,
    encode: Callable[[], Sequence[EncodedChunk]],
) -> EncodingSummary:
    """Encode the chunks of the runner's part, and return what they hold; the shards are for the command without it."""
    assert runner.part is not None, "a part"
    count = len(encoding.plan.chunks)
    of_part = [index for index in range(count) if runner.part.has(index)]
    corpus = load_result(encoding.result)
    is_finished = corpus is not None and corpus.encoding == encoding.fingerprint()
    paths = [encoding.parts()[index].path for index in of_part if index >= encoding.written_chunks()]
    missing = 0 if is_finished else len(paths) - sum(existing(paths))
    chunks = [] if is_finished else encode()
    total = sum((chunk.statistics for chunk in chunks), ChunkStatistics())
    if options.fail_on_loss and total.losses:
        raise fail_on_loss_error(in_words(total.losses))
    stored = count if is_finished else encoding.encoded_chunks()
    complete = "the shards are complete" if is_finished else ""
    done = PartDone(str(runner.part), len(of_part), missing, stored, count, "encoded", complete=complete)
    held = corpus_held(
        encoding,
        model,
        total,
        tokens=sum(chunk.ids for chunk in chunks),
        documents=sum(chunk.documents for chunk in chunks),
        shards=(),
        documents_by=encoding.options.get("documents", "offsets"),
        separator=None,
        separator_id=None,
    )
    return replace(summary_of(runner, encoding.directory.location, replace(held, files=0)), part=done)


def finished_corpus(runner: Runner, encoding: Encoding) -> EncodedCorpus | None:
    """Return what the directory holds, if it is complete: every file is there, with the bytes that were written."""
    corpus = load_result(encoding.result)
    if corpus is None or corpus.encoding != encoding.fingerprint():
        return None
    for stage in (ENCODING_STAGE, *([ORDERING_STAGE] if encoding.options.get("shuffle") else []), WRITING_STAGE):
        runner.skip(stage)
    if (damaged := damaged_file(runner, encoding, corpus)) is not None:
        path = encoding.directory / damaged
        runner.warn(f"{path} is missing, or not what was written (its CRC-32 shows it): encoding the corpus again")
        return None
    return corpus


def _encode(runner: Runner, encoding: Encoding, model: Model, options: EncodeOptions) -> EncodedCorpus:
    encoding.directory.remove([RESULT])  # the shards are not complete from here on
    total = ChunkStatistics()

    def accept(read: ChunkStatistics, documents: int) -> None:
        nonlocal total
        total = total_of(runner, encoding, read, options)
        if not documents and not total.text_tokens:  # text that fills no row is dropped, and said so
            raise no_text_error("encode", total.losses, total.not_taken)

    written, index, layout = write_shards(runner, encoding, model, options, accept)
    asked, separator = encoding.options, encoding.options["separator"]
    documents = sum(shard.documents for shard in written)
    if holds_out(asked):
        refuse_empty_side(asked, written, documents)
    for warning in planning.warnings_of(model, options, total, documents, encoding.plan):
        runner.warn(warning)
    return saved_result(
        encoding,
        model,
        layout,
        total,
        written,
        documents_by=asked["documents"],
        separator=separator,
        separator_id=model.id_of(separator),
        pack=None if layout.documents else asked["pack"],
        held_out_from=encoding.plan.held_out_from,
        order={name: asked[name] for name in ORDER_OPTIONS if asked[name] != RECORDS[name].default} or None,
        index=tuple(index),
    )


def refuse_empty_side(asked: Mapping[str, Any], written: Sequence[ShardFacts], documents: int) -> None:
    """Raise `InputError` if the shards of training, or of validation, have no tokens."""
    tokens = {split: sum(one.tokens for one in written if (one.split is None) == split) for split in (True, False)}
    if all(tokens.values()):
        return
    row, share = asked["sequence_length"], f"--val-fraction {asked['val_fraction']}"
    side, other = ("validation", "a larger") if tokens[True] else ("training", "a smaller")
    what = f"the {format_count(documents, 'documents')} of this corpus" if row is None else f"rows of {row:,} tokens"
    raise InputError(
        f"{share} leaves nothing for {side} of {what}: give {other} share{'' if row is None else ' or shorter rows'}, "
        "or name what separates documents with --split-at when the tokenizer is trained"
    )


def total_of(runner: Runner, encoding: Encoding, read: ChunkStatistics, options: CorpusOptions) -> ChunkStatistics:
    """Return the statistics of a corpus by those of its chunks; `InputError` for losses under `fail_on_loss`."""
    total = ChunkStatistics(losses=encoding.plan.files_without_text()) + read
    for warning in warnings_of(total.losses):
        runner.warn(warning)
    if options.fail_on_loss and total.losses:
        raise fail_on_loss_error(in_words(total.losses))
    return total


def saved_result(
    encoding: Encoding, model: Model, layout: Layout, total: ChunkStatistics, written: Sequence[ShardFacts], **more: Any
) -> EncodedCorpus:
    """Write `shards.json`, with which the shards are complete, and return what it says."""
    more |= {"columns": dict(layout.columns) if len(layout.columns) > 1 else None, "row_tokens": layout.row_tokens}
    documents = sum(shard.documents for shard in written)
    tokens = sum(shard.tokens for shard in written)
    corpus = corpus_held(encoding, model, total, shards=tuple(written), tokens=tokens, documents=documents, **more)
    manifest.save_result(corpus, encoding)
    return corpus


def corpus_held(encoding: Encoding, model: Model, total: ChunkStatistics, **more: Any) -> EncodedCorpus:
    """Return what shards, or parts of them, hold. total: of what was read."""
    return EncodedCorpus(
        format=encoding.options["shard_format"],
        dtype=encoding.options["dtype"],
        vocab_size=model.vocabulary.max_id + 1,
        tokenizer=encoding.options["tokenizer"],
        text_bytes=total.text_bytes if total.text_tokens else total.bytes,
        text_tokens=total.text_tokens or None,
        read_bytes=total.bytes,
        files=len(encoding.plan.files),
        not_taken=total.not_taken,
        losses={kind: total.losses[kind] for kind in KINDS if kind in total.losses},
        encoding=encoding.fingerprint(),
        **more,
    )
