"""`encode --output`: a corpus becomes shards of token ids.

What the shards hold depends on corpus, tokenizer and options alone: not on workers, chunk size, memory or kills.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from bpe_pipeline.run.directory import LOG, Directory
from bpe_pipeline.run.options import RECORDS, EncodeOptions, ShardsOptions
from bpe_pipeline.run.parts import Part, PartDone
from bpe_pipeline.run.patterns import slowness
from bpe_pipeline.run.runner import Runner, opened
from bpe_pipeline.shards import manifest
from bpe_pipeline.shards import plan as planning
from bpe_pipeline.shards.bucket import ShardRows
from bpe_pipeline.shards.encode import ORDERING_STAGE, WRITING_STAGE, damaged_file, rows_of, write_shards
from bpe_pipeline.shards.encoded_corpus import RESULT, EncodedCorpus
from bpe_pipeline.shards.encoding_tasks import ENCODING_STAGE, ChunkFiles, CorpusText
from bpe_pipeline.shards.formats import ShardFacts
from bpe_pipeline.shards.manifest import ORDER_OPTIONS, Encoding, holds_out, kind_of
from bpe_pipeline.storage import Location
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


@dataclass(frozen=True)
class ShardsJob(ABC):
    """What becomes the shards of an opened encoding: a corpus, or what an extension reads."""

    runner: Runner
    encoding: Encoding
    model: Model
    options: ShardsOptions

    @abstractmethod
    def source(self) -> ChunkFiles:
        """Return what makes the ids of each chunk."""

    @abstractmethod
    def rows(self) -> ShardRows:
        """Return how documents become rows."""

    @abstractmethod
    def accepted(self, total: ChunkStatistics, documents: int) -> ChunkStatistics:
        """Return what was read, before its documents become shards; raises `InputError` if there are none."""

    @abstractmethod
    def facts(self, total: ChunkStatistics, documents: int) -> dict[str, Any]:
        """Return what `shards.json` says in addition, and warn of what was read."""

    @abstractmethod
    def whole(self, documents: int) -> tuple[str, str]:
        """Return what is held out of, and what helps where one side is empty, besides another share."""


@dataclass(frozen=True)
class _CorpusJob(ShardsJob):
    """A corpus of documents."""

    options: EncodeOptions

    def source(self) -> CorpusText:
        """Return the text."""
        self.runner.warn(slowness(self.model.pattern))
        return CorpusText(self.runner, self.encoding, self.model, self.options)

    def rows(self) -> ShardRows:
        """Return the rows that the options ask for."""
        return rows_of(self.encoding.options, self.model)

    def accepted(self, total: ChunkStatistics, documents: int) -> ChunkStatistics:
        """Return what was read; `InputError` if there was nothing."""
        if not documents and not total.text_tokens:  # text that fills no row is dropped, and said so
            raise no_text_error("encode", total.losses, total.not_taken)
        return total

    def facts(self, total: ChunkStatistics, documents: int) -> dict[str, Any]:
        """Return what separates documents, and their order; warn of special tokens in the text."""
        plan, asked, separator = self.encoding.plan, self.encoding.options, self.encoding.options["separator"]
        for warning in planning.warnings_of(self.model, self.options, total, documents, plan):
            self.runner.warn(warning)
        return {
            "documents_by": asked["documents"],
            "separator": separator,
            "separator_id": self.model.id_of(separator),
            "pack": None if self.rows().layout.documents else asked["pack"],
            "held_out_from": plan.held_out_from,
            "order": {name: asked[name] for name in ORDER_OPTIONS if asked[name] != RECORDS[name].default} or None,
        }

    def whole(self, documents: int) -> tuple[str, str]:
        """Return what is held out of, and what helps where one side is empty, besides another share."""
        row, split_at = self.options.sequence_length, "name what separates documents with --split-at when the"
        if row is None:
            what, shorter = f"the {format_count(documents, 'documents')} of this corpus", ""
        else:
            what, shorter = f"rows of {row:,} tokens", " or shorter rows"
        return what, f"{shorter}, or {split_at} tokenizer is trained"


def run_encode(options: EncodeOptions, model: Model, executor: Executor, listener: Listener) -> EncodingSummary:
    """Encode the corpus and write its shards, except what the directory holds already."""
    if options.inputs is None or options.output is None:
        raise UsageError("encoding a corpus takes INPUT and --output: name files, and a directory for the shards")
    model = planning.with_bos(model, options)
    planning.require_one_search(model, options)
    planning.require_fitting_format(options)

    def opened_job(runner: Runner, directory: Directory) -> _CorpusJob:
        cut = partial(planning.cut_corpus, model=model, options=options, nodes=runner.nodes)
        asked = planning.asked_of(options, model)
        encoding = planning.open_encoding(runner, directory, options, asked, cut)
        return _CorpusJob(runner, encoding, model, options.replace(sample=encoding.options["sample"]))

    kind = kind_of(options.values)
    with opened(options, executor, listener, kind=kind) as (runner, directory):
        return run_job(opened_job(runner, directory))


def run_job(job: ShardsJob) -> EncodingSummary:
    """Write the shards of a job, except what their directory holds already, or the chunks of the runner's part."""
    runner, encoding = job.runner, job.encoding
    with runner.logged(encoding.directory, job.options, lambda: manifest.remove_partial(encoding)):
        if runner.part is not None:
            return _summary_of_part(job, runner.part)
        corpus = finished_corpus(runner, encoding) or _encode(job)
        encoding.remove_working()
        warn_of_others(runner, encoding, corpus)
    return summary_of(runner, encoding.directory.location, corpus)


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


def _summary_of_part(job: ShardsJob, part: Part) -> EncodingSummary:
    """Encode the chunks of a part, and return what they hold; the shards are for the command without it."""
    runner, encoding = job.runner, job.encoding
    count = len(encoding.plan.chunks)
    of_part = [index for index in range(count) if part.has(index)]
    is_finished = encoding.finished() is not None
    new = 0 if is_finished else len(runner.run(job.source().stage()))
    with_file = [index for index in of_part if index >= encoding.written_chunks() and not is_finished]
    chunks = [encoding.parts[index].holds() for index in with_file]
    total = sum((chunk.statistics for chunk in chunks), ChunkStatistics())
    if job.options.fail_on_loss and total.losses:
        raise fail_on_loss_error(in_words(total.losses))
    stored = count if is_finished else len(encoding.chunks_there())
    complete = "the shards are complete" if is_finished else ""
    done = PartDone(str(part), len(of_part), new, stored, count, "encoded", complete=complete)
    held = corpus_held(
        encoding,
        job.model,
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
    if (corpus := encoding.finished()) is None:
        return None
    for stage in (ENCODING_STAGE, *([ORDERING_STAGE] if encoding.options.get("shuffle") else []), WRITING_STAGE):
        runner.skip(stage)
    if (damaged := damaged_file(runner, encoding, corpus)) is not None:
        path = encoding.directory / damaged
        runner.warn(f"{path} is missing, or not what was written (its CRC-32 shows it): encoding the corpus again")
        return None
    return corpus


def _encode(job: ShardsJob) -> EncodedCorpus:
    runner, encoding, model, options = job.runner, job.encoding, job.model, job.options
    encoding.directory.remove([RESULT])  # the shards are not complete from here on
    total = ChunkStatistics()

    def accept(read: ChunkStatistics, documents: int) -> None:
        nonlocal total
        total = ChunkStatistics(losses=encoding.plan.files_without_text()) + read
        for warning in warnings_of(total.losses):
            runner.warn(warning)
        if options.fail_on_loss and total.losses:
            raise fail_on_loss_error(in_words(total.losses))
        total = job.accepted(total, documents)

    rows = job.rows()
    written, index = write_shards(runner, encoding, job.source(), rows, accept)
    documents, layout = sum(shard.documents for shard in written), rows.layout
    if holds_out(encoding.options):
        _refuse_empty_side(f"--val-fraction {encoding.options['val_fraction']}", written, *job.whole(documents))
    corpus = corpus_held(
        encoding,
        model,
        total,
        shards=tuple(written),
        index=tuple(index),
        tokens=sum(shard.tokens for shard in written),
        documents=documents,
        columns=dict(layout.columns) if len(layout.columns) > 1 else None,
        row_tokens=layout.row_tokens,
        **job.facts(total, documents),
    )
    manifest.save_result(corpus, encoding)
    return corpus


def _refuse_empty_side(share: str, written: Sequence[ShardFacts], what: str, more: str) -> None:
    """Raise `InputError` if the shards of training, or of validation, have no tokens. more: what else helps."""
    tokens = {split: sum(one.tokens for one in written if (one.split is None) == split) for split in (True, False)}
    if not all(tokens.values()):
        side, other = ("validation", "a larger") if tokens[True] else ("training", "a smaller")
        raise InputError(f"{share} leaves nothing for {side} of {what}: give {other} share{more}")


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
