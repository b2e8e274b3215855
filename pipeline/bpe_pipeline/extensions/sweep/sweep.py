"""The story of `sweep`: mixtures of counted runs times vocabulary sizes, measured, and one of them recommended.

Each mixture is an ordinary run in a directory of its own, made by `combine`, with one merge list for all sizes, so any
point is what `combine` and `merge` would make. Finished combinations, merge lists and points are kept: the same command
resumes, and one with more sizes, weights or runs computes only what is new.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.base.events import Advanced, Listener, Notice, StageEnded, StageStarted, notices_to
from bpe_pipeline.commands.combine import combination_of, require_addable, text_of_run, write_combination
from bpe_pipeline.commands.held_out import short_names
from bpe_pipeline.commands.merge import open_merging
from bpe_pipeline.commands.report import text_of
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.listing import files_in_both, find_files
from bpe_pipeline.corpus.sampling import choose
from bpe_pipeline.counts.combine import COMBINING
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.sweep.mixtures import Mixture, evened_mixtures, mixtures_of
from bpe_pipeline.extensions.sweep.options import SweepOptions
from bpe_pipeline.extensions.sweep.result import TABLE, Swept, labels, write_table
from bpe_pipeline.extensions.sweep.rule import recommend
from bpe_pipeline.extensions.sweep.sweep_worker import Point, SweepTask, measure
from bpe_pipeline.merges import merge
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.merges.merge_worker import MergeTask
from bpe_pipeline.reports.measure import source_names
from bpe_pipeline.reports.result import plain
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import Directory, Kind, fingerprint
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.mixture import BOTH
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.run.plan import dependencies_of
from bpe_pipeline.run.runner import Runner, Stage, opened
from bpe_pipeline.run.stored import stored
from bpe_pipeline.storage import Location, existing, same_location
from bpe_pipeline.tokenizer.export import Trained, check_before_work, export_model
from bpe_pipeline.tokenizer.formats.export_formats import FILE_NAMES

SWEEP = Kind("sweep.json", re.compile(r"sweep\.parquet|tokenizer|mixtures"), 1)
STAGE = "measuring"
_FILE_BYTES = 1 << 22  # of each held-out file that are measured


@dataclass(frozen=True)
class Learned:
    """A mixture with its merge list. depends_on: a fingerprint."""

    mixture: Mixture
    trained: Trained
    depends_on: str


@dataclass(frozen=True)
class _Sweep:
    """A sweep at work. merging: the options of merging that were requested; files: held-out ones, with their kind.

    known: points by fingerprint; written: names of the files in `tokenizer/` that are ours.
    """

    directory: Directory
    runs: Mapping[str, Location]
    merging: Mapping[str, Any]
    options: SweepOptions
    runner: Runner
    files: Sequence[tuple[CorpusFile, str]]
    known: dict[str, Any]
    written: set[str]

    def store(self) -> None:
        """Write the manifest: the points that are known, and the tokenizer's files."""
        self.directory.write_manifest({"points": self.known, "tokenizer": sorted(self.written)})

    def export(self, best: Trained, size: int) -> None:
        """Write the tokenizer of a mixture and size in place of the one that an earlier command wrote."""
        home = self.directory / "tokenizer"
        self.directory.remove(f"tokenizer/{name}" for name in self.written)  # of other formats, too
        paths = [home / name for name in FILE_NAMES]
        missing = {path.name for path, there in zip(paths, existing(paths), strict=True) if not there}
        self.written.clear()
        self.written.update(missing)
        self.store()
        written, _ = export_model(best.model(size), home, self.options.export)
        self.written.intersection_update(path.name for path in written)
        self.store()


def run_sweep(options: SweepOptions, merging: Mapping[str, Any], executor: Executor, listener: Listener) -> Swept:
    """Measure every mixture at every size. merging: the options of merging that were requested."""
    _refuse_unfit(options)
    counting = manifest.require(options.runs[0]).manifest.counting
    tokenizer = make_options(TrainOptions, {**counting, **merging, "vocab_size": options.vocab_size})
    broker = check_before_work(tokenizer, listener)  # what the first export would refuse
    runs = dict(zip(short_names(options.runs), options.runs, strict=True))
    mixtures = _mixtures(options, runs, executor)
    for mixture in mixtures:
        require_addable([manifest.require(runs[name]) for name in mixture.weights], lambda _: None)
    for location in options.runs:
        require_counted(manifest.require(location), executor)
    files = _held_out(options, listener)
    with opened(options, executor, listener, broker, kind=SWEEP) as (runner, directory):
        before = _stored(directory, overwrite=options.overwrite)
        known = {} if options.overwrite else dict(before.get("points", {}))
        written = set(before.get("tokenizer", ()))
        sweep = _Sweep(directory, runs, merging, options, runner, files, known, written)
        sweep.store()
        directory.remove_partial([SWEEP.manifest, TABLE, *(f"tokenizer/{name}" for name in written)])
        learned = {one.mixture.name: one for one in _learn(sweep, mixtures)}
        points = _measure(sweep, [*learned.values()])
        weights = {name: one.mixture.described() for name, one in learned.items()}
        chosen = recommend(points, labels(weights))
        sweep.export(learned[chosen.mixture].trained, chosen.vocab_size)
        write_table(directory / TABLE, points)
    return Swept(directory.location, points, chosen, weights)


def _refuse_unfit(options: SweepOptions) -> None:
    if not options.runs:
        raise UsageError("sweep needs counted RUNs to mix")
    if options.output is None:
        raise UsageError("sweep needs --output DIR, where its mixtures, table and tokenizer go")
    for index, location in enumerate(options.runs):
        if same_location(options.output, location):
            raise UsageError(f"--output {options.output} is one of the runs; choose another")
        if any(same_location(location, other) for other in options.runs[:index]):
            raise UsageError(f"the run {location} is named twice; name it once, with several weights")
        if isinstance(location, Path) and location.is_file():
            raise UsageError(
                f"{location} is a file, not a run: count it first, or measure with it: --held-out {location}"
            )


def _mixtures(options: SweepOptions, runs: Mapping[str, Location], executor: Executor) -> list[Mixture]:
    if not options.temperatures and not options.shares:
        return mixtures_of(options.weights, [*runs])
    if options.weights:
        raise UsageError(BOTH)
    sizes = {name: text_of_run(manifest.require(one), executor).bytes or 0 for name, one in runs.items()}
    return evened_mixtures(options.temperatures, options.shares or (), sizes)


def _held_out(options: SweepOptions, listener: Listener) -> list[tuple[CorpusFile, str]]:
    """Return the held-out files with their kind; warn of those that a run has counted, themselves or as copies."""
    files = find_files(map(str, options.held_out)).files if options.held_out else []
    of_runs = [text_of(manifest.require(location)).files for location in options.runs]
    counted = {file.path for several in of_runs for file in files_in_both(files, several)}
    if counted:
        listener(Notice("warning", f"--held-out names text that was counted: {', '.join(sorted(counted)[:3])}"))
    return [(file, "counted" if file.path in counted else "held out") for file in files]


def _stored(directory: Directory, *, overwrite: bool) -> dict[str, Any]:
    """Return what the manifest says; with --overwrite it may be damaged, else foreign files are refused without one."""
    try:
        stored_values = directory.read_manifest()
    except RunDirectoryError:
        if not overwrite:
            raise
        stored_values = None
    if stored_values is None and not overwrite:
        directory.refuse_foreign_files()
    return stored_values or {}


def _learn(sweep: _Sweep, mixtures: Sequence[Mixture]) -> list[Learned]:
    """Return the merge lists of mixtures, for the largest size; those that are missing are learned in parallel."""
    mixed = list(_opened(sweep, mixtures))
    missing = [(run, task) for run, _, task, known in mixed if known is None]
    with contextlib.ExitStack() as locks:
        for run, _ in missing:
            locks.enter_context(run.directory.locked())
        new = iter(merge.learn_together(sweep.runner, [task for _, task in missing]))
    learned = []
    for mixture, (run, options, _, known) in zip(mixtures, mixed, strict=True):
        depends_on = fingerprint(run.manifest.merge_fingerprint(), options.of_stage("special"))
        trained = Trained(next(new) if known is None else known, pattern_of(options), options)
        learned.append(Learned(mixture, trained, depends_on))
    return learned


_Opened = tuple[Run, TrainOptions, MergeTask, MergeList | None]


def _opened(sweep: _Sweep, mixtures: Sequence[Mixture]) -> Iterator[_Opened]:
    """Make the runs of mixtures as one stage."""
    listener, start = sweep.runner.listener, time.monotonic()
    listener(StageStarted(COMBINING, len(mixtures), "mixtures"))
    for mixture in mixtures:
        yield _open(sweep, mixture, notices_to(listener))
        listener(Advanced(COMBINING, 1))
    listener(StageEnded(COMBINING, time.monotonic() - start))


def _open(sweep: _Sweep, mixture: Mixture, listener: Listener) -> _Opened:
    """Make the run of a mixture, as far as it is missing; returns it with its merge list, if that is stored already."""
    home, runner = sweep.directory / "mixtures" / mixture.name, sweep.runner
    runs = [sweep.runs[name] for name in mixture.weights]
    combination = combination_of(runs, [*mixture.weights.values()], None, {}, runner.executor, listener)
    write_combination(combination, replace(sweep.options, output=home), runner.executor, listener)
    merging = {name: value for name, value in sweep.merging.items() if name not in ("output", "overwrite")}
    merging["vocab_size"] = sweep.options.vocab_size
    with open_merging(home, merging, runner.executor, listener) as (own, run, counted, options, _):
        run = manifest.store_merging(run, options)
        task = merge.task_of(own, merge.learning_of(run), counted, options)
        return run, options, task, merge.stored(task, runner.executor)


def _measure(sweep: _Sweep, learned: Sequence[Learned]) -> tuple[Point, ...]:
    """Measure the points that are not stored yet, each mixture's stored as soon as they are known; returns all."""
    names = source_names([file.path for file, _ in sweep.files])
    files = [(names[file.path], kind, choose([file], _FILE_BYTES)) for file, kind in sweep.files]
    sources = [(name, *manifest.require(location).counter) for name, location in sweep.runs.items()]
    texts = [[name, mark] for name, _, mark in sources], [[kind, *dependencies_of(file)] for file, kind in sweep.files]
    marks: list[dict[str, int]] = []  # fingerprint of each point -> size, by mixture
    tasks: list[SweepTask] = []
    for one in learned:
        name = one.mixture.name
        of = {fingerprint(name, one.depends_on, size, *texts): size for size in sweep.options.vocab_size}
        missing = [size for mark, size in of.items() if mark not in sweep.known]
        tasks.append(SweepTask(one.trained, missing, name, [*one.mixture.weights], sources, files))
        marks.append(of)
    sizes = len(sweep.options.vocab_size)
    stage = Stage(
        STAGE,
        "tokenizers",
        measure,
        tasks,
        weights=[sizes] * len(tasks),
        done={index for index, task in enumerate(tasks) if not task.sizes},
        begun=sum(sizes - len(task.sizes) for task in tasks if task.sizes),
        grant=sweep.runner.reserve(len(tasks)),
    )
    for index, points in sweep.runner.each(stage):
        measured = {point.vocab_size: plain(point) for point in points}
        sweep.known.update({mark: measured[size] for mark, size in marks[index].items() if size in measured})
        sweep.store()
    return tuple(stored(Point, sweep.known[mark]) for of in marks for mark in of)
