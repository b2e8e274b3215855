"""The story of `train`: count, merge, export, report; and `count` and `merge` as the parts of it that stand alone."""

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from pipeline import count, counters, environment, manifest, merge, terminal
from pipeline.atomic import write_whole
from pipeline.config import Options, flag_of, make_options
from pipeline.errors import ExportRefusedError, TrainingError, UsageError
from pipeline.events import Listener, Notice, silent
from pipeline.export import EXPORTS
from pipeline.log import log_to
from pipeline.manifest import Run
from pipeline.pattern import CompiledPattern, compile_pattern
from pipeline.report.summary import CorpusFacts, Summary, VocabularyFacts, render
from pipeline.tokenizer import Tokenizer
from pipeline.vocabulary import Vocabulary, merge_budget, with_pad_token

_log = logging.getLogger(__name__)


def train(inputs: str | PathLike[str] | Sequence[str | PathLike[str]] = (), **options: Any) -> Tokenizer:
    """Train a tokenizer and return it.

    inputs: files, directories and globs; none: the sample corpus (the running Python's own standard library).
    options: the command's options with underscores, such as `output="runs/a"`, `vocab_size=32_000`,
        `special_tokens=["<|endoftext|>"]`, `pattern="gpt2"`, `workers=8`; see `pipeline.config.Options`.

    A run directory that holds the same run is resumed; one that holds another run is refused. Raises `UsageError` for
    options that mean nothing, `InputError` for a corpus that cannot be read, `RunDirectoryError`, `TrainingError`;
    all of them are `PipelineError`.
    """
    settled = make_options({"inputs": inputs, **options})
    if settled.dry_run:
        raise UsageError("dry_run prints a plan and trains nothing: use the command, bpe-pipeline train --dry-run")
    summary = run_train(settled, silent)
    assert summary.tokenizer_directory is not None
    return Tokenizer.load(summary.tokenizer_directory)


def run_train(options: Options, listener: Listener) -> Summary:
    """Count, merge, export; each only as far as the run directory does not hold it yet."""
    special_tokens = with_pad_token(options.special_tokens, options.pad_token)
    merge_budget(options.vocab_size, special_tokens)
    pattern = compile_pattern(options.pattern)
    run = count.open_run(options, pattern, listener)
    with _at_work(run, options) as stages:
        counted = count.count(run, pattern, options, listener)
        stages.note("counting", counted.elapsed_s)
        run = manifest.with_merging(run, options)
        return _merge_and_export(run, counted, pattern, options, listener, stages)


def run_count(options: Options, listener: Listener) -> Summary:
    """Count alone; the run directory then waits for `run_merge`."""
    pattern = compile_pattern(options.pattern)
    run = count.open_run(options, pattern, listener)
    with _at_work(run, options) as stages:
        counted = count.count(run, pattern, options, listener)
        stages.note("counting", counted.elapsed_s)
        return stages.summary(run, counted.facts)


def run_merge(options: Options, listener: Listener) -> Summary:
    """Merge and export from the counts of a run directory (`options.output`); the corpus is not needed."""
    assert options.output is not None
    run = manifest.require(options.output)
    if options.overwrite:
        run = manifest.forget_merging(run)
    options = replace(options, **run.manifest.counting_options())
    special_tokens = with_pad_token(options.special_tokens, options.pad_token)
    merge_budget(options.vocab_size, special_tokens)
    pattern = compile_pattern(options.pattern)
    run = manifest.with_merging(run, options)
    with _at_work(run, options) as stages:
        counted = count.counted(run)
        stages.note("counting", None)
        return _merge_and_export(run, counted, pattern, options, listener, stages)


@dataclass
class _Stages:
    """The times and the memory of a command, noted as it goes."""

    watch: environment.MemoryWatch
    times: dict[str, float | None] = field(default_factory=dict)

    def note(self, name: str, elapsed_s: float | None) -> None:
        self.times[name] = elapsed_s

    def summary(self, run: Run, corpus: CorpusFacts, **found: Any) -> Summary:
        self.watch.look()
        summary = Summary(
            run.directory,
            run.manifest.counting["pattern"],
            corpus,
            stages=self.times,
            peak_memory_bytes=self.watch.peak_bytes,
            **found,
        )
        write_whole(run.directory / "report.txt", render(summary) + "\n")
        return summary


@contextlib.contextmanager
def _at_work(run: Run, options: Options) -> Iterator[_Stages]:
    """Log and watch memory while a run is worked on."""
    with log_to(run.directory / "log.txt"), environment.MemoryWatch(options.memory_limit) as watch:
        _log.info("%s", options)
        try:
            yield _Stages(watch)
        except BaseException as error:
            _log.error("stopped: %s: %s", type(error).__name__, error)
            raise
        if watch.exceeded:
            _log.warning("memory passed the limit: %d bytes of %d", watch.peak_bytes, watch.limit_bytes)


def _merge_and_export(
    run: Run, counted: count.Counted, pattern: CompiledPattern, options: Options, listener: Listener, stages: _Stages
) -> Summary:
    special_tokens = with_pad_token(options.special_tokens, options.pad_token)
    merges = merge_budget(options.vocab_size, special_tokens)
    learned = merge.load(run.merges_path, run.merge_fingerprint)
    if learned is not None and learned.serves(merges):
        stages.note("merging", None)
    else:
        started = time.monotonic()
        batches = counted.take_columns()
        assert run.manifest.merging is not None
        threads = options.workers or environment.default_workers()
        learned = merge.learn(batches, merges, run.manifest.merging, threads, listener)
        merge.save(learned, run.merges_path, run.merge_fingerprint)
        stages.note("merging", time.monotonic() - started)
    learned = learned.first(merges)
    if len(learned.pairs) < merges:
        listener(Notice("info", f"no pair is left to merge: {len(learned.pairs):,} merges instead of {merges:,}"))
    started = time.monotonic()
    tokenizer = Tokenizer(
        Vocabulary.from_merges(learned.pairs, special_tokens, special_ids=options.special_ids),
        pattern,
        pad_token=options.pad_token,
    )
    directory = run.tokenizer_directory(options.vocab_size)
    exported, refused = export_to(tokenizer, directory, options.export)
    stages.note("exporting", time.monotonic() - started)
    facts = VocabularyFacts(
        vocab_size=tokenizer.vocab_size,
        merges=len(learned.pairs),
        special_tokens=tuple(special_tokens),
        stopped=_why_it_stopped(learned, merges, options),
        tokens=None,
        longest=(),
    )
    return stages.summary(
        run, counted.facts, vocabulary=facts, tokenizer_directory=directory, exported=exported, refused=refused
    )
