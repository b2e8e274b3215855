"""The story of `sweep`: mixtures of counted runs times vocabulary sizes, measured, and one of them recommended.

Each mixture is an ordinary run in a directory of its own, made by `combine`, with one merge list for all sizes, so any
point is what `combine` and `merge` would make. Finished combinations, merge lists and points are kept: the same command
resumes, and one with more sizes, weights or runs computes only what is new.
"""

import contextlib
import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.base.events import Advanced, Listener, Notice, StageEnded, StageStarted, notices_to
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.commands.combine import require_addable, run_combine, run_part, text_bytes
from bpe_pipeline.commands.held_out import short_names
from bpe_pipeline.commands.merge import open_merging
from bpe_pipeline.commands.report import counters_of, text_of
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.listing import files_in_both, find_files
from bpe_pipeline.corpus.sampling import choose
from bpe_pipeline.counts.combine import COMBINING
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.sweep.mixtures import Candidate, Mixture, evened_mixtures, mixtures_of
from bpe_pipeline.extensions.sweep.options import SweepOptions
from bpe_pipeline.extensions.sweep.page import LessText, Swept, labels, overlaps_of, write_table
from bpe_pipeline.extensions.sweep.rule import ForModel, Recommendation, rate, recommend
from bpe_pipeline.extensions.sweep.sweep_worker import Point, SourceCounter, SweepTask, measure
from bpe_pipeline.merges import merge, merge_worker, replay_worker
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.merges.merge_worker import MergeTask
from bpe_pipeline.merges.replay_worker import SumTask
from bpe_pipeline.reports.figure_files import require_figures
from bpe_pipeline.reports.measure import source_names
from bpe_pipeline.reports.result import plain
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import Directory, Kind, fingerprint
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.memory import Broker
from bpe_pipeline.run.mixture import BOTH
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.patterns import pattern_of, tokenizer_pattern
from bpe_pipeline.run.plan import dependencies_of
from bpe_pipeline.run.runner import Runner, Stage, opened
from bpe_pipeline.run.stored import stored
from bpe_pipeline.run.workers import worker_count
from bpe_pipeline.storage import Location, existing, same_location
from bpe_pipeline.storage.atomic import write_whole
from bpe_pipeline.tokenizer.export import Trained, check_before_work, export_model
from bpe_pipeline.tokenizer.formats.export_formats import FILE_NAMES

SWEEP = Kind("sweep.json", re.compile(r"sweep\.(html|parquet)|tokenizer|mixtures"), 1)
_TABLE, _PAGE = "sweep.parquet", "sweep.html"
_NAMED_BYTES = 1 << 22  # of each file
_PARTS = (4, 2)  # of the chunks: each fourth one, each second one
STAGE = "measuring"


@dataclass(frozen=True)
class Design:
    """What a sweep compares: runs in mixtures of their `weights`, measured on held-out text too, for a model.

    temperatures, shares: make the weights instead. candidates: trained runs, measured on held-out text alone.
    """

    locations: Sequence[Location]
    weights: Sequence[str] = ()
    temperatures: Sequence[str] = ()
    shares: Sequence[str] = ()
    held_out: Sequence[Location] = ()
    candidates: Sequence[Location] = ()
    model: ForModel = ForModel()
    figures: Location | None = None  # a directory for them as files


@dataclass(frozen=True)
class Learned:
    """A mixture or a candidate with its merge list. depends_on: a fingerprint.

    counters: of the text of a candidate whose counts have weights, without these.
    """

    mixture: Mixture | Candidate
    trained: Trained
    depends_on: str
    counters: tuple[tuple[Location, str], ...] = ()


@dataclass(frozen=True)
class _Sweep:
    """A sweep at work. merging: the options of merging that were requested; known: points by fingerprint."""

    directory: Directory
    runs: Mapping[str, Location]
    merging: Mapping[str, Any]
    options: SweepOptions
    runner: Runner
    sources: Sequence[SourceCounter]
    named: Sequence[tuple[CorpusFile, str]]  # files that are measured too, with their kind
    known: dict[str, Any]
    written: set[str]  # names of the files in `tokenizer/` that are ours

    def store(self) -> None:
        """Write the manifest: the points that are known, and the tokenizer's files."""
        self.directory.write_manifest({"points": self.known, "tokenizer": sorted(self.written)})

    def export(self, best: Learned, size: int) -> None:
        """Write the tokenizer of a mixture and size in place of the one that an earlier command wrote."""
        home = self.directory / "tokenizer"
        self.directory.remove(f"tokenizer/{name}" for name in self.written)  # of other formats, too
        paths = [home / name for name in FILE_NAMES]
        missing = {path.name for path, there in zip(paths, existing(paths), strict=True) if not there}
        self.written.clear()
        self.written.update(missing)
        self.store()
        written, _ = export_model(best.trained.model(size), home, self.options.export)
        self.written.intersection_update(path.name for path in written)
        self.store()

    def run_of(self, name: str, every: int) -> Location:
        """Return the run of a name, or the location of the run of every Nth of its chunks."""
        return self.runs[name] if every == 1 else self.directory / "mixtures" / f"{name}@1_{every}"


def run_sweep(
    design: Design, merging: Mapping[str, Any], options: SweepOptions, executor: Executor, listener: Listener
) -> Swept:
    """Measure every mixture at every size. merging: the options of merging that were requested."""
    if options.output is None:
        raise UsageError("sweep needs --output DIR, where its mixtures, table and page go")
    locations = design.locations
    if any(same_location(options.output, location) for location in locations):
        raise UsageError(f"--output {options.output} is one of the runs; choose another")
    _refuse_unfit(design)
    counting = manifest.require((*locations, *design.candidates)[0]).manifest.counting
    tokenizer = make_options(TrainOptions, {**counting, **merging, "vocab_size": options.vocab_size})
    broker = check_before_work(tokenizer, listener)  # what the first export would refuse
    if design.figures is not None:
        require_figures(design.figures, overwrite=options.overwrite)
    names = short_names(locations)
    runs = dict(zip(names, locations, strict=True))
    mixtures = _mixtures(design, runs, executor)
    for mixture in mixtures:
        require_addable([manifest.require(runs[name]) for name in mixture.weights], lambda _: None)
    candidates = _candidates(design.candidates, options.vocab_size, executor)
    sources = _sources(runs, options, broker, executor)
    files = find_files(map(str, design.held_out)).files if design.held_out else []
    if counted := _counted_files(files, (*locations, *design.candidates)):
        listener(Notice("warning", f"--held-out names text that was counted: {', '.join(counted[:3])}"))
    files_named = [(file, "counted" if file.path in counted else "held out") for file in files]
    with opened(options, executor, listener, broker, kind=SWEEP) as (runner, directory):
        before = _stored(directory, overwrite=options.overwrite)
        known = {} if options.overwrite else dict(before.get("points", {}))
        written = set(before.get("tokenizer", ()))
        sweep = _Sweep(directory, runs, merging, options, runner, sources, files_named, known, written)
        sweep.store()
        directory.remove_partial([SWEEP.manifest, _TABLE, _PAGE, *(f"tokenizer/{name}" for name in written)])
        learned = [*_learn(sweep, mixtures), *candidates]
        points = _measure(sweep, learned)
        _refuse_other_texts(points)
        weights = {one.mixture.name: one.mixture.described() for one in learned}
        chosen = recommend(points, design.model, labels(weights))
        [best] = (one for one in learned if one.mixture.name == chosen.mixture)
        sweep.export(best, chosen.vocab_size)
        merges = {size: best.trained.options.special.merge_budget(size) for size in options.vocab_size}
        overlaps = overlaps_of({one.mixture.name: one.trained.learned for one in learned}, merges)
        parts = tuple(_parts(sweep, best, chosen))
        homes = {one.mixture.name: one.mixture.location for one in candidates if isinstance(one.mixture, Candidate)}
        swept = Swept(directory.location, points, overlaps, chosen, parts, weights, homes)
        write_table(directory / _TABLE, points)
        write_whole(directory / _PAGE, swept.page())
        if design.figures is not None:
            swept.write_figures(design.figures, overwrite=options.overwrite)
    return swept


def _mixtures(design: Design, runs: Mapping[str, Location], executor: Executor) -> list[Mixture]:
    if not runs and not (design.weights or design.temperatures or design.shares):
        return []
    if not design.temperatures and not design.shares:
        return mixtures_of(design.weights, [*runs])
    if design.weights:
        raise UsageError(BOTH)
    sizes = {name: text_bytes(manifest.require(one), executor, needed=True) for name, one in runs.items()}
    return evened_mixtures(design.temperatures, design.shares, sizes)


def _candidates(locations: Sequence[Location], sizes: tuple[int, ...], executor: Executor) -> list[Learned]:
    """Return the merge lists of trained runs; raises for one that has no vocabulary of each size."""
    found = []
    for name, run in zip(short_names(locations), map(manifest.require, locations), strict=True):
        home, again = run.directory, f"`bpe-pipeline merge {run.directory} --vocab-size {max(sizes)}`"
        if run.manifest.merging is None:
            raise RunDirectoryError(f"{home} has no merges yet, so it is no --candidate: {again} learns them")
        options = replace(run.manifest.options_of(), vocab_size=sizes)
        first, (path, mark) = options.first_stage, merge.learning_of(run, options).merges
        known = executor.one(merge_worker.read, (path, mark))
        if known is None or not known.serves(merge.merges_for(options)):
            raise RunDirectoryError(f"{home} has too few merges for {max(sizes):,} tokens: {again} learns more")
        if first is not None and min(map(options.special.merge_budget, sizes)) < first - len(BYTE_ORDER):
            raise UsageError(
                f"{home} has superwords from {first:,} tokens on: give larger sizes than --vocab-size {min(sizes)}"
            )
        chooser = run.manifest.chooser
        how = [pattern_of(options).shown]
        how += [f"by {chooser.KIND}"] if chooser else []
        how += [f"superwords from {first:,}"] if first is not None else []
        trained = Trained(known, tokenizer_pattern(options), options)
        depends_on, counters = fingerprint(mark, options.of_stage("special")), counters_of(run, trained)
        found.append(Learned(Candidate(name, str(home), ", ".join(how)), trained, depends_on, counters))
    return found


def _refuse_other_texts(points: Sequence[Point]) -> None:
    """Raise `UsageError` if what is text of a file is not the same to all."""
    sizes: dict[str, tuple[int, str]] = {}
    for point in points:
        for text in point.measured:
            size, other = sizes.setdefault(text.name, (text.bytes, point.mixture))
            if text.kind not in ("mixture", "source") and text.bytes != size:
                raise UsageError(
                    f"{text.name} has {text.bytes:,} bytes of text to {point.mixture} and {size:,} to {other}: their "
                    "special tokens or Unicode normalization differ; leave one out, or hold out text without such "
                    "tokens, in NFC"
                )


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


def _refuse_unfit(design: Design) -> None:
    locations = design.locations
    if not locations and not design.candidates:
        raise UsageError("sweep needs counted RUNs to mix, or trained ones as --candidate")
    if design.candidates and not design.held_out:
        raise UsageError("--candidate is compared on text that no run counted: give --held-out")
    _refuse_twice("--candidate", design.candidates, "")
    _refuse_twice("the run", locations, ", with several weights")
    for location in locations:
        if isinstance(location, Path) and location.is_file():
            raise UsageError(
                f"{location} is a file, not a run: count it first, or measure with it: --held-out {location}"
            )


def _refuse_twice(what: str, locations: Sequence[Location], how: str) -> None:
    for index, location in enumerate(locations):
        if any(same_location(location, other) for other in locations[:index]):
            raise UsageError(f"{what} {location} is named twice; name it once{how}")


def _counted_files(files: Sequence[CorpusFile], locations: Sequence[Location]) -> list[str]:
    """Return the held-out files that a run has counted, themselves or as copies."""
    counted = [text_of(manifest.require(location)).files for location in locations]
    return sorted({file.path for several in counted for file in files_in_both(files, several)})


def _parts(sweep: _Sweep, best: Learned, chosen: Recommendation) -> Iterator[LessText]:
    """Learn a mixture from a half and a quarter of the chunks of its runs, if all have four, without weights."""
    if isinstance(best.mixture, Candidate):
        return
    runs = [manifest.require(sweep.runs[name]) for name in best.mixture.weights]
    chunks = [[run.chunk_path(index) for index in range(len(run.manifest.plan.chunks))] for run in runs]
    weighted = any(run.manifest.weights for run in runs)
    if weighted or any(len(paths) < max(_PARTS) or not all(existing(paths)) for paths in chunks):
        return
    size = chosen.vocab_size
    less = replace(sweep, options=replace(sweep.options, vocab_size=(size,)))
    for every, name in itertools.product(_PARTS, best.mixture.weights):
        options = replace(sweep.options, output=sweep.run_of(name, every))
        run_part(sweep.runs[name], every, options, sweep.runner.executor, notices_to(sweep.runner.listener))
    parts = _learn(less, [replace(best.mixture, every=every) for every in _PARTS])
    whole, merges = best.trained.learned, {size: best.trained.options.special.merge_budget(size)}
    for one, point in zip(parts, _measure(less, parts), strict=True):
        [overlap] = overlaps_of({"part": one.trained.learned, "whole": whole}, merges)
        yield LessText(one.mixture.every, rate(point), rate(point) / chosen.rate - 1, overlap.shared, overlap.of)


def _sources(
    runs: Mapping[str, Location], options: SweepOptions, broker: Broker, executor: Executor
) -> list[SourceCounter]:
    """Find each run's counter, and add up its bytes."""
    counters = []
    for name, location in runs.items():
        run = manifest.require(location)
        require_counted(run, executor)
        counters.append((name, *run.counter))
    workers = broker.reserve(asked=worker_count(options.workers, len(counters)))
    tasks = [SumTask(path, mark, workers.bytes) for _, path, mark in counters]
    sums = dict(executor.run(replay_worker.add_up, tasks, at_once=workers.count))
    return [SourceCounter(*one, sums[index].bytes) for index, one in enumerate(counters)]


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
    if mixtures:
        listener(StageStarted(COMBINING, len(mixtures), "mixtures"))
    for mixture in mixtures:
        yield _open(sweep, mixture, notices_to(listener))
        listener(Advanced(COMBINING, 1))
    if mixtures:
        listener(StageEnded(COMBINING, time.monotonic() - start))


def _open(sweep: _Sweep, mixture: Mixture, listener: Listener) -> _Opened:
    """Make the run of a mixture, as far as it is missing; returns it with its merge list, if that is stored already."""
    home, runner = sweep.directory / "mixtures" / mixture.name, sweep.runner
    runs, weights = [sweep.run_of(name, mixture.every) for name in mixture.weights], list(mixture.weights.values())
    run_combine(runs, weights, replace(sweep.options, output=home), runner.executor, listener)
    merging = {name: value for name, value in sweep.merging.items() if name not in ("output", "overwrite")}
    merging["vocab_size"] = sweep.options.vocab_size
    with open_merging(home, merging, runner.executor, listener) as (own, run, counted, options, _):
        run = manifest.store_merging(run, options)
        task = merge.task_of(own, merge.learning_of(run, options), counted, options)
        return run, options, task, merge.stored(task, runner.executor)


def _sources_of(sweep: _Sweep, one: Learned) -> tuple[Sequence[SourceCounter], Mapping[str, Fraction]]:
    """Return what is measured besides texts, with weights where it was learned from; of a candidate its own text."""
    if isinstance(one.mixture, Candidate):
        own = [SourceCounter(str(path), path, mark, 0) for path, mark in one.counters]
        return own, {source.name: Fraction(1, 2) for source in own}  # is not whole: each counter is encoded
    return sweep.sources, one.mixture.weights if one.mixture.every == 1 else {}


def _measure(sweep: _Sweep, learned: Sequence[Learned]) -> tuple[Point, ...]:
    """Measure the points that are not stored yet, each mixture's stored as soon as they are known; returns all."""
    names = source_names([file.path for file, _ in sweep.named])
    named = [(names[file.path], kind, choose([file], _NAMED_BYTES)) for file, kind in sweep.named]
    dependencies = [[kind, *dependencies_of(file)] for file, kind in sweep.named]
    texts = [[[source.name, source.fingerprint] for source in sweep.sources], dependencies]
    marks: list[dict[str, int]] = []  # fingerprint of each point -> size, by mixture
    tasks: list[SweepTask] = []
    for one in learned:
        of = {fingerprint(one.mixture.name, one.depends_on, size, *texts): size for size in sweep.options.vocab_size}
        missing = [size for mark, size in of.items() if mark not in sweep.known]
        sources, weights = _sources_of(sweep, one)
        tasks.append(SweepTask(one.trained, missing, one.mixture.name, weights, sources, named))
        marks.append(of)
    sizes = len(sweep.options.vocab_size)
    stage = Stage(
        STAGE,
        "tokenizers",
        measure,
        tasks,
        weights=[sizes] * len(tasks),
        stored=lambda tasks: [None if task.sizes else [] for task in tasks],
        begun=lambda tasks: sum(sizes - len(task.sizes) for task in tasks),
        grant=sweep.runner.reserve(len(tasks)),
    )
    for index, points in sweep.runner.each(stage):
        own = isinstance(learned[index].mixture, Candidate)
        measured = {point.vocab_size: plain(point.without_sources() if own else point) for point in points}
        sweep.known.update({mark: measured[size] for mark, size in marks[index].items() if size in measured})
        sweep.store()
    return tuple(stored(Point, sweep.known[mark]) for of in marks for mark in of)
