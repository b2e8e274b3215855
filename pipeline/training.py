"""The story of `train`: count, merge, export, report; and `count` and `merge` as the parts of it that stand alone."""

import contextlib
import json
import logging
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from pipeline import count, environment, manifest, merge, run_directory
from pipeline.atomic import write_whole
from pipeline.chat_templates import CHAT_TEMPLATES
from pipeline.config import Options, check_vocabulary, make_options
from pipeline.errors import ExportRefusedError, RunDirectoryError, UsageError
from pipeline.events import Advanced, Event, Listener, Notice, StageEnded, StageStarted
from pipeline.executors import Executor
from pipeline.export import EXPORTS, write_model
from pipeline.log import log_to
from pipeline.manifest import Run
from pipeline.merge_list import MergeList
from pipeline.model import ChatTemplate, Model
from pipeline.pattern import CompiledPattern, compile_pattern
from pipeline.report.summary import Summary, VocabularyFacts, render
from pipeline.tokenizer import Tokenizer
from pipeline.values import format_bytes
from pipeline.vocabulary import Vocabulary, merge_budget, with_pad_token
from pipeline.workers import executor_for

_log = logging.getLogger(__name__)
_LONGEST_SHOWN, _LONGEST_WIDTH = 5, 24
_MERGING = "merging"


def train(inputs: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None, **options: Any) -> Tokenizer:
    """Train a tokenizer and return it.

    inputs: files, directories and globs; None: the sample corpus (the running Python's own standard library).
    options: the command's options with underscores, such as `output="runs/a"`, `vocab_size=32_000`,
        `special_tokens=["<|endoftext|>"]`, `pattern="gpt2"`, `workers=8`; see `pipeline.config.Options`.

    A run directory that holds the same run is resumed; one that holds another run is refused. Raises `UsageError` for
    options that mean nothing, `InputError` for a corpus that cannot be read, `RunDirectoryError`, `TrainingError`;
    all of them are `PipelineError`. What a person should know (a pattern that runs slowly, an empty file) is a Python
    warning.
    """
    settled = make_options({"inputs": inputs, **options})
    if settled.dry_run:
        raise UsageError("dry_run prints a plan and trains nothing: use the command, bpe-pipeline train --dry-run")
    with executor_for(settled) as executor:
        _, model = run_train(settled, executor, _warn)
    return Tokenizer.from_model(model)


def _warn(event: Event) -> None:
    if isinstance(event, Notice) and event.level == "warning":
        warnings.warn(event.text, stacklevel=2)


def run_train(options: Options, executor: Executor, listener: Listener) -> tuple[Summary, Model]:
    """Count, merge, export; each only as far as the run directory does not hold it yet."""
    pattern = compile_pattern(options.pattern)
    _check_before_work(options, pattern)
    directory = options.output or run_directory.new_directory()
    with _at_work(directory, options) as stages:
        run = count.open_run(directory, options, pattern, listener)
        with stages.logged(run):
            counted = count.count(run, pattern, options, executor, listener)
            run = manifest.with_merging(run, options)
            return _merge_and_export(run, counted, pattern, options, executor, listener, stages)


def run_count(options: Options, executor: Executor, listener: Listener) -> Summary:
    """Count alone; the run directory then waits for `run_merge`."""
    pattern = compile_pattern(options.pattern)
    directory = options.output or run_directory.new_directory()
    with _at_work(directory, options) as stages:
        run = count.open_run(directory, options, pattern, listener)
        with stages.logged(run):
            counted = count.count(run, pattern, options, executor, listener)
            return stages.summary(run, counted)


def run_merge(
    directory: Path, given: Mapping[str, Any], executor: Executor, listener: Listener
) -> tuple[Summary, Model]:
    """Merge and export from the counts of a run directory; the corpus is not needed.

    given: the options that were asked for, by name; all others are as the run has them. Nothing is removed before
    everything that can be known beforehand was checked.
    """
    stored = manifest.require(directory).manifest
    asked = make_options(given)
    counting = {name: value for name, value in asked.of_stage("count").items() if name in given}
    manifest.refuse_other_options(directory, "counting", stored.counting, counting)
    merging = {} if asked.overwrite else stored.merging or {}
    options = make_options({"vocab_size": stored.vocab_size, **stored.counting, **merging, **given})
    pattern = compile_pattern(options.pattern)
    _check_before_work(options, pattern)
    with _at_work(directory, options) as stages:
        run = manifest.require(directory)
        counted = count.counted(run, executor)
        if counted is None:
            raise RunDirectoryError(
                f"{directory} is not counted to its end; run the `count` or `train` that began it again, then merge"
            )
        if options.overwrite:
            run = manifest.forget_merging(run)
        run = manifest.with_merging(run, options)
        with stages.logged(run):
            return _merge_and_export(run, counted, pattern, options, executor, listener, stages)


def _check_before_work(options: Options, pattern: CompiledPattern) -> None:
    """Refuse before anything is done what would be refused at its end: vocabulary, special tokens, formats."""
    check_vocabulary(options)
    special_tokens = with_pad_token(options.special_tokens, options.pad_token)
    # A vocabulary without merges is refused for the same reasons as the one that will be trained.
    vocabulary = Vocabulary.from_merges([], special_tokens, special_ids=options.special_ids)
    model = Model(vocabulary, pattern, options.pad_token, chat_template=chat_template(options))
    if options.export is not None:
        with tempfile.TemporaryDirectory() as nowhere:
            export_model(model, Path(nowhere), options.export)


def chat_template(options: Options) -> ChatTemplate | None:
    """The chat template that the options name."""
    return CHAT_TEMPLATES[options.chat_template] if options.chat_template else None


def with_chat_template(model: Model, options: Options) -> Model:
    """The model with the chat template that the options name, or with the one that it has."""
    return replace(model, chat_template=chat_template(options)) if options.chat_template else model


def export_model(model: Model, directory: Path, formats: Sequence[str] | None) -> tuple[list[Path], dict[str, str]]:
    """Write a tokenizer's files; gives the paths written and, for each format that was not, the reason.

    formats: what must be written (`ExportRefusedError` where one cannot be), or None for all that can be.
    """
    written: list[Path] = []
    refused: dict[str, str] = {}
    for name in formats if formats is not None else EXPORTS:
        try:
            written += EXPORTS[name](model, directory)
        except ExportRefusedError as error:
            if formats is not None:
                raise
            refused[name] = str(error)
    return written, refused


@dataclass
class _Stages:
    """The times and the memory of a command, noted as it goes."""

    options: Options
    watch: environment.MemoryWatch
    times: dict[str, float | None] = field(default_factory=dict)

    @contextlib.contextmanager
    def logged(self, run: Run) -> Iterator[None]:
        """Write what happens into the run's log; half-done files of a killed command are removed first."""
        run_directory.sweep(run.directory)
        with log_to(run.directory / "log.txt"):
            _log.info("%s", self.options)
            try:
                yield
            except BaseException as error:
                _log.error("stopped: %s: %s", type(error).__name__, error)
                raise

    def summary(self, run: Run, counted: count.Counted, **found: Any) -> Summary:
        self.watch.look()
        summary = Summary(
            run.directory,
            run.manifest.counting["pattern"],
            counted.facts,
            stages=counted.times | self.times,
            peak_memory_bytes=self.watch.peak_bytes,
            **found,
        )
        write_whole(run.directory / "report.txt", render(summary) + "\n")
        write_whole(run.directory / "report.json", json.dumps(summary.to_json(), default=str, indent=1) + "\n")
        return summary


@contextlib.contextmanager
def _at_work(directory: Path, options: Options) -> Iterator[_Stages]:
    """Work on a run directory alone, watching memory; an interruption says how to go on."""
    try:
        with run_directory.locked(directory), environment.MemoryWatch(options.memory_limit) as watch:
            yield _Stages(options, watch)
    except KeyboardInterrupt:
        again = f"the same command with --output {directory}" if options.output is None else "the same command"
        without = ", without --overwrite," if options.overwrite else ""
        raise KeyboardInterrupt(f"interrupted; what is finished is kept: {again}{without} goes on from there") from None


def _merge_and_export(
    run: Run,
    counted: count.Counted,
    pattern: CompiledPattern,
    options: Options,
    executor: Executor,
    listener: Listener,
    stages: _Stages,
) -> tuple[Summary, Model]:
    special_tokens = with_pad_token(options.special_tokens, options.pad_token)
    merges = merge_budget(options.vocab_size, special_tokens)
    learned = _learn(run, counted, merges, options, executor, listener, stages).first(merges)
    stopped = _why_it_stopped(learned, merges, options)
    if len(learned) < merges:
        listener(Notice("info", f"the vocabulary is smaller than asked for: {stopped}"))
    started = time.monotonic()
    vocabulary = Vocabulary.from_id_pairs(learned.left, learned.right, special_tokens, special_ids=options.special_ids)
    model = Model(vocabulary, pattern, options.pad_token, trained=True, chat_template=chat_template(options))
    directory = run.tokenizer_directory(options.vocab_size)
    written, refused = export_model(model, directory, options.export)
    if directory / "tokenizer.json" not in written:  # a run keeps its model, whatever other runtimes make of it
        written = write_model(model, directory) + written
    stages.times["exporting"] = time.monotonic() - started
    facts = VocabularyFacts(
        vocab_size=vocabulary.size,
        merges=len(learned),
        special_tokens=tuple(special_tokens),
        stopped=stopped,
        tokens=learned.tokens,
        bytes=learned.bytes,
        longest=_longest(vocabulary),
    )
    if stages.watch.exceeded:
        listener(Notice("warning", f"memory passed the limit of {format_bytes(stages.watch.limit_bytes or 0)}"))
    summary = stages.summary(
        run,
        counted,
        vocabulary=facts,
        tokenizer_directory=directory,
        written=tuple(path.name for path in written),
        refused=refused,
    )
    return summary, model


def _learn(
    run: Run,
    counted: count.Counted,
    merges: int,
    options: Options,
    executor: Executor,
    listener: Listener,
    stages: _Stages,
) -> MergeList:
    """A list of at least so many merges, or all there are: the one in the run directory, or a new one put there."""
    task = merge.MergeTask(
        counter=counted.path,
        counter_fingerprint=counted.fingerprint,
        merges=merges,
        min_frequency=options.min_frequency,
        max_token_bytes=options.max_token_bytes,
        tie_break=options.tie_break,
        threads=count.threads(options),
        output=run.merges_path,
        fingerprint=run.manifest.merge_fingerprint(),
    )
    stages.times[_MERGING] = None
    for _, stored in executor.run(merge.stored, [task] if task.output.exists() else []):
        if stored is not None and stored.serves(merges):
            return stored
    started = time.monotonic()
    listener(StageStarted(_MERGING, merges, "merges"))
    [(_, learned)] = executor.run(merge.learn, [task], lambda amount: listener(Advanced(_MERGING, amount)))
    stages.times[_MERGING] = time.monotonic() - started
    listener(StageEnded(_MERGING, time.monotonic() - started))
    return learned


def _why_it_stopped(learned: MergeList, merges: int, options: Options) -> str:
    missing = merges - len(learned)
    if missing:
        often = "at all" if options.min_frequency == 1 else f"{options.min_frequency:,} times"
        return f"no pair is left that occurs {often}, {missing:,} merges before the size asked for"
    if not learned.counts:
        return "at the 256 bytes: no merges were asked for"
    return f"at the vocabulary size asked for; the last pair occurred {learned.counts[-1]:,} times"


def _longest(vocabulary: Vocabulary) -> tuple[str, ...]:
    longest = sorted(vocabulary.tokens.values(), key=len, reverse=True)[:_LONGEST_SHOWN]
    texts = [token.decode(errors="replace") for token in longest]
    return tuple(repr(text if len(text) <= _LONGEST_WIDTH else text[: _LONGEST_WIDTH - 1] + "…") for text in texts)
