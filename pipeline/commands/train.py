"""The story of `train`: count, merge, export, report; and `count` and `merge` as the parts of it that stand alone."""

import contextlib
import functools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from pipeline.base import machine
from pipeline.base.errors import TrainingError, UsageError
from pipeline.base.events import Event, Listener, Notice, StageStarted, warn_of
from pipeline.base.log import log_to
from pipeline.base.units import format_bytes
from pipeline.commands import report as reporting
from pipeline.counts import count
from pipeline.executors import Executor
from pipeline.merges import forecast, merge
from pipeline.merges.merge_list import MergeList
from pipeline.pattern import CompiledPattern, compile_pattern
from pipeline.report.numbers import Numbers
from pipeline.report.summary import OtherSize, Summary
from pipeline.run import directory as run_directory
from pipeline.run import manifest, memory, plan
from pipeline.run.ids import merge_budget, with_pad_token
from pipeline.run.manifest import Run
from pipeline.run.options import Options, make_options, names_of, refuse_unfit
from pipeline.run.standard_input import refused_goes
from pipeline.run.workers import as_workers_know, executor_for
from pipeline.storage import Location, Remote, named
from pipeline.tokenizer.export import Trained, check_before_work, export_size
from pipeline.tokenizer.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


def train(inputs: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None, **options: Any) -> Tokenizer:
    """Train a tokenizer and return it.

    inputs: files, directories, globs and URIs; None: the sample corpus (the running Python's own standard library).
    options: the command's options with underscores, such as `output="runs/a"`, `vocab_size=32_000`,
        `special_tokens=["<|endoftext|>"]`, `pattern="gpt2"`, `workers=8`; see `pipeline.run.options.Options`.

    A run directory that holds the same run is resumed; one that holds another run is refused. Raises `UsageError` for
    options that mean nothing, `InputError` for a corpus that cannot be read, `RunDirectoryError`, `TrainingError`;
    all of them are `PipelineError`. What a person should know (a pattern that runs slowly, an empty file) is a Python
    warning. Of several vocabulary sizes (`vocab_size=[8_000, 32_000]`) the first is returned; all are in the run
    directory, and `merge_run` gives them all.
    """
    refuse_unfit(options, names_of("encode"), "training")
    settled = make_options({"inputs": inputs, **options})
    if settled.dry_run:
        raise UsageError("dry_run prints a plan and trains nothing: use the command, bpe-pipeline train --dry-run")
    with executor_for(settled) as executor:
        _, trained = run_train(settled, executor, warn_of)
    return first_tokenizer(trained)


def merge_run(run: str | PathLike[str] | Remote, **options: Any) -> dict[int, Tokenizer]:
    """Learn vocabularies from the counts of a run directory and give them by size, as `bpe-pipeline merge` does.

    options: of merging, such as `vocab_size=[8_000, 32_000, 128_000]`; all sizes are cut from one merge list. Raises
    as `train` does.
    """
    refuse_unfit(options, names_of("encode"), "training")
    with executor_for(make_options(options)) as executor:
        _, trained = run_merge(named(run), options, executor, warn_of)
    return {size: Tokenizer.from_model(trained.model(size)) for size in trained.options.vocab_size}


def first_tokenizer(trained: Trained) -> Tokenizer:
    """The tokenizer of the size that was asked for first."""
    return Tokenizer.from_model(trained.model(trained.options.vocab_size[0]))


def run_train(options: Options, executor: Executor, listener: Listener) -> tuple[Summary, Trained]:
    """Count, merge, export; each only as far as the run directory does not hold it yet."""
    pattern = compile_pattern(options.pattern, timeout_s=options.pattern_timeout)
    check_before_work(options, pattern)
    directory = directory_for(options)
    with at_work(directory, options, executor, listener) as stages:
        listener = stages.hearing(listener)
        run = plan.open_run(directory, options, pattern, listener, executor.nodes())
        with stages.logged(run), refused_goes(directory, (file.path for file in run.manifest.files)):
            counted = count.count(run, pattern, options, executor, listener)
            run = manifest.with_merging(run, options)
            return merge_and_export(run, counted, pattern, options, executor, listener, stages)


def run_count(options: Options, executor: Executor, listener: Listener) -> Summary:
    """Count alone; the run directory then waits for `run_merge`."""
    pattern = compile_pattern(options.pattern, timeout_s=options.pattern_timeout)
    directory = directory_for(options)
    with at_work(directory, options, executor, listener) as stages:
        listener = stages.hearing(listener)
        run = plan.open_run(directory, options, pattern, listener, executor.nodes())
        with stages.logged(run), refused_goes(directory, (file.path for file in run.manifest.files)):
            counted = count.count(run, pattern, options, executor, listener)
            return stages.summary(run, counted, listener)


def run_merge(
    directory: Location, given: Mapping[str, Any], executor: Executor, listener: Listener
) -> tuple[Summary, Trained]:
    """Merge and export from the counts of a run directory; the corpus is not needed.

    given: the options that were asked for, by name; all others are as the run has them. Nothing is removed before
    everything that can be known beforehand was checked.
    """
    stored = manifest.require(directory).manifest
    asked = make_options(given)
    counting = {name: value for name, value in asked.of_stage("count").items() if name in given}
    manifest.refuse_other_options(directory, "counting", stored.counting, counting)
    before = {} if asked.overwrite else stored.merging or {}
    options = make_options({"vocab_size": stored.vocab_size, **stored.counting, **before, **given})
    directory = as_workers_know(directory, options)
    options = replace(options, output=directory)
    pattern = compile_pattern(options.pattern, timeout_s=options.pattern_timeout)
    check_before_work(options, pattern)
    with at_work(directory, options, executor, listener) as stages:
        listener = stages.hearing(listener)
        run = manifest.require(directory)
        counted = count.require_counted(run, executor)
        if options.overwrite:
            merge.require_room(run, counted, options, executor)
            run = manifest.forget_merging(run)
        run = manifest.with_merging(run, options)
        with stages.logged(run):
            return merge_and_export(run, counted, pattern, options, executor, listener, stages)


@dataclass
class Stages:
    """The times and the memory of a command, noted as it goes. untouched: nothing that it made is in its place yet."""

    options: Options
    executor: Executor
    watch: machine.MemoryWatch
    times: dict[str, float | None] = field(default_factory=dict)
    untouched: bool = False

    def begin(self, stage: str) -> float:
        """What memory is taken from now on is this stage's; gives the time."""
        self.watch.begin(stage)
        return time.monotonic()

    def hearing(self, listener: Listener) -> Listener:
        """The listener, with stages noted as they begin."""

        def hear(event: Event) -> None:
            if isinstance(event, StageStarted):
                self.begin(event.stage)
            listener(event)

        return hear

    @contextlib.contextmanager
    def logged(self, run: Run) -> Iterator[None]:
        """Write what happens into the run's log; what killed commands and workers left behind is removed."""
        sweep = functools.partial(run_directory.sweep, run.directory, [file.path for file in run.manifest.files])
        sweep()
        with log_to(run.directory / "log.txt"):
            _log.info("%s", self.options)
            try:
                yield
            except BaseException as error:
                _log.error("stopped: %s: %s", type(error).__name__, error)
                raise
        if self.executor.retries:
            sweep()

    def summary(
        self, run: Run, counted: count.Counted, listener: Listener, numbers: Numbers | None = None, **found: Any
    ) -> Summary:
        """What came of the command, also written into the run directory."""
        self.watch.look()
        used = self.executor.used()
        summary = Summary(
            run.directory,
            run.manifest.counting["pattern"],
            counted.facts,
            stages=counted.times | self.times,
            peak_memory_bytes=self.watch.peak_bytes,
            retries=self.executor.retries,
            nodes=0 if used is None else used.nodes,
            peak_node_bytes=0 if used is None else used.peak_bytes,
            stage_peak_bytes=dict(self.watch.stage_peaks),
            **found,
        )
        reporting.write(run, summary, numbers, listener)
        return summary


@contextlib.contextmanager
def watched(memory_limit: int | None, listener: Listener) -> Iterator[machine.MemoryWatch]:
    """Watch memory during the block, and warn at its end, also where it raises, where the limit was passed."""
    watch = machine.MemoryWatch(memory_limit)
    try:
        with watch:
            yield watch
    finally:
        if watch.exceeded:
            peak, limit = format_bytes(watch.peak_bytes), format_bytes(memory_limit or 0)
            listener(Notice("warning", f"memory passed the limit of {limit}: all processes together took {peak}"))


def directory_for(options: Options) -> Location:
    """Where the run goes: a new directory where none was named, made only where a limit of memory lets work begin."""
    _refuse_small_limit(options)
    return as_workers_know(options.output or run_directory.new_directory(), options)


def _refuse_small_limit(options: Options) -> None:
    """A limit that is too small for anything is refused before anything is made."""
    memory.budget(options.memory_limit).workers(1)


@contextlib.contextmanager
def at_work(
    directory: Location, options: Options, executor: Executor, listener: Listener, *, resumable: bool = True
) -> Iterator[Stages]:
    """Work on a run directory alone, watching memory; an interruption says how to go on, if that is possible."""
    _refuse_small_limit(options)
    stages = None
    try:
        with run_directory.locked(directory), watched(options.memory_limit, listener) as watch:
            executor.on_notice = lambda text: listener(Notice("warning", text))
            stages = Stages(options, executor, watch)
            yield stages
    except KeyboardInterrupt:
        if stages is not None and stages.untouched:
            raise KeyboardInterrupt("interrupted; nothing was changed: start again") from None
        if not resumable:
            raise KeyboardInterrupt(
                f"interrupted; an iterator cannot be read again: if {directory} was counted to its end, merge_run goes "
                "on, otherwise nothing was changed: start again"
            ) from None
        again = f"the same command with --output {directory}" if options.output is None else "the same command"
        without = ", without --overwrite," if options.overwrite else ""
        raise KeyboardInterrupt(f"interrupted; what is finished is kept: {again}{without} goes on from there") from None


def merge_and_export(
    run: Run,
    counted: count.Counted,
    pattern: CompiledPattern,
    options: Options,
    executor: Executor,
    listener: Listener,
    stages: Stages,
) -> tuple[Summary, Trained]:
    """Learn one merge list and write a tokenizer of every size asked for, one after the other."""
    special_tokens = with_pad_token(options.special_tokens, options.pad_token)
    learned, stages.times[merge.STAGE] = merge.learn(run, counted, options, executor, listener)
    exporting_bytes = _check_export(learned.first(merge.merges_for(options)), options)
    report = functools.partial(reporting.after_training, run, learned, pattern, options, executor, listener)
    run_directory.require_ours(run.directory)
    started = stages.begin("exporting")
    with ThreadPoolExecutor(1, reporting.STAGE) as beside:  # a worker has nothing to do while we export
        numbers = beside.submit(report) if reporting.has_room(learned, options, executor, exporting_bytes) else None
        exported = [export_size(run, learned, size, pattern, options) for size in options.vocab_size]
        stages.times["exporting"] = time.monotonic() - started
        started = stages.begin(reporting.STAGE)
        told = report() if numbers is None else numbers.result()
        stages.times[reporting.STAGE] = time.monotonic() - started
    for size, one in zip(options.vocab_size, exported, strict=True):
        if one.facts.merges < merge_budget(size, special_tokens):
            listener(Notice("info", f"the vocabulary is smaller than asked for: {one.facts.stopped}"))
    first, *others = exported
    summary = stages.summary(
        run,
        counted,
        listener,
        told,
        report=reporting.page_name(run, told),
        vocabulary=first.facts,
        tokenizer_directory=first.directory,
        written=first.written,
        refused=first.refused,
        other_sizes=tuple(OtherSize(one.facts, one.directory, one.written) for one in others),
    )
    return summary, Trained(learned, pattern, options)


def _check_export(learned: MergeList, options: Options) -> int:
    """What exporting takes at most, in bytes; refused where there is less: tokens may be as long as pieces."""
    whole = memory.budget(options.memory_limit)
    needed = forecast.exporting_bytes(max(options.vocab_size), learned.token_bytes())
    room = whole.limit_bytes - whole.taken_bytes - memory.WORKER_BYTES
    if needed > room:
        raise TrainingError(
            f"exporting would take {format_bytes(needed)} and there are {format_bytes(max(room, 0))}: the "
            f"{max(options.vocab_size):,} tokens hold {format_bytes(learned.token_bytes())}; the merges are kept: give "
            "a larger --memory-limit, a smaller --vocab-size, or merge anew with --max-token-bytes and --overwrite"
        )
    return needed
