"""The story of `combine`: the counts of several runs, each with a weight, become those of a new run.

So mixtures of corpora are tried without counting again. Every count is multiplied by its run's weight, rounded half up
and never below 1, and then the runs are added; the arithmetic is of whole numbers, so the order of runs changes
nothing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from pipeline.base.errors import RunDirectoryError, UsageError
from pipeline.base.events import Listener, StageEnded, StageStarted, warn_of
from pipeline.base.units import parse_weight
from pipeline.commands.train import Stages, at_work, directory_for
from pipeline.corpus import losses
from pipeline.counts import combine_worker, count, counter_file, sources
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.sources import Opened
from pipeline.executors import Executor
from pipeline.report.summary import Summary
from pipeline.run import directory as run_directory
from pipeline.run import manifest
from pipeline.run.manifest import Run, Source
from pipeline.run.options import OPTION_FIELDS, READING_OPTIONS, Options, flag_of, make_options
from pipeline.run.workers import executor_here
from pipeline.storage import Location, named, same_place

_CUTTING_NAMES = {"expression": "--pattern", "by": "what cuts", "unicode": "the Unicode version"}


def combine_runs(runs: Sequence[str | PathLike[str]], weights: Sequence[Any] | None = None, **options: Any) -> Location:
    """Combine the counts of several runs into a new run, as `bpe-pipeline combine` does; gives its directory.

    weights: as many as runs, or None for 1 each: numbers, `Fraction` or `Decimal`, or texts such as "2.5" and "1/3"; a
    float counts as the shortest decimal number that stands for it. options: `output`, `overwrite`, `workers`,
    `memory_limit`. `merge_run` goes on with the new run.

    Raises `UsageError` for weights that do not fit, `RunDirectoryError` for runs that are not counted to their end or
    were counted in ways that cannot be compared, `TrainingError` for counts beyond 2^63 - 1.
    """
    settled = make_options(options)
    with executor_here(settled) as executor:
        return run_combine([named(run) for run in runs], weights or (), settled, executor, warn_of).directory


def run_combine(
    directories: Sequence[Location], weights: Sequence[Any], options: Options, executor: Executor, listener: Listener
) -> Summary:
    """Combine and report."""
    factors = _factors(directories, weights)
    runs = [manifest.require(directory) for directory in directories]
    for run in runs[1:]:
        _require_comparable(runs[0], run)
    parts = [_Part(run, factor, _statistics(run, executor)) for run, factor in zip(runs, factors, strict=True)]
    directory = directory_for(options)
    if any(same_place(directory, run.directory) for run in runs):
        raise UsageError(f"--output {directory} is one of the runs to combine; choose another")
    places = [place for run in runs for place in _places(run.directory)]
    run_directory.refuse_corpus_inside(directory, places, "one of the runs to combine")
    first = runs[0].manifest
    with at_work(directory, options, executor, listener) as stages:
        stages.untouched = True
        pieces = _pieces(parts, executor)  # which may be refused, before anything is removed
        counting = first.counting | {name: OPTION_FIELDS[name].default for name in READING_OPTIONS}
        opened = sources.open_run(directory, counting, first.cutting, _source(parts), overwrite=options.overwrite)
        counted = None if opened.is_new else count.counted(opened.run, executor)
        if counted is None:
            counted = _combined(opened, parts, pieces, options, executor, listener, stages)
        stages.untouched = False
        with stages.logged(opened.run):
            return stages.summary(opened.run, counted, listener)


def _places(directory: Location) -> list[str]:
    """A run's directory as it is named, and where that leads through links."""
    return [str(directory.absolute()), str(directory.resolve())] if isinstance(directory, Path) else [str(directory)]


@dataclass(frozen=True)
class _Part:
    run: Run
    weight: Fraction
    statistics: ChunkStatistics

    @property
    def fraction(self) -> tuple[int, int]:
        return self.weight.numerator, self.weight.denominator


def _factors(directories: Sequence[Location], weights: Sequence[Any]) -> list[Fraction]:
    if not directories:
        raise UsageError("combine needs the directories of runs; name one or more")
    if weights and len(weights) != len(directories):
        raise UsageError(
            f"--weight is given {len(weights)} times for {len(directories)} runs; give one for each run, or none"
        )
    for index, directory in enumerate(directories):
        if any(same_place(directory, other) for other in directories[:index]):
            raise UsageError(f"the run {directory} is named twice; name it once, with the sum of its weights")
    factors = []
    for weight in weights or [1] * len(directories):
        try:
            factors.append(parse_weight(weight))
        except ValueError as error:
            raise UsageError(f"--weight: expected {error}, not {str(weight)[:80]!r}") from None
    return factors


def _require_comparable(first: Run, other: Run) -> None:
    """Raise `RunDirectoryError` naming the first thing that makes two runs' pieces different things."""
    differing = [
        (flag_of(name), first.manifest.counting[name], value)
        for name, value in other.manifest.counting.items()
        if name not in READING_OPTIONS and first.manifest.counting.get(name) != value
    ] + [
        (_CUTTING_NAMES.get(name, name), first.manifest.cutting[name], value)
        for name, value in other.manifest.cutting.items()
        if first.manifest.cutting.get(name) != value
    ]
    for name, one, another in differing:
        raise RunDirectoryError(
            f"{first.directory} and {other.directory} cannot be combined: {name} is {one!r} in the one and {another!r} "
            "in the other; count one of them again, as the other was"
        )


def _statistics(run: Run, executor: Executor) -> ChunkStatistics:
    count.require_counted(run, executor)
    [facts] = counter_file.look_at([(run.counter_path, run.manifest.counter_fingerprint())], executor)
    assert facts is not None, "it was there a moment ago"
    lost = losses.add_up([count.empty_files(run.manifest), facts.statistics.losses])
    return replace(facts.statistics, files=facts.statistics.files or len(run.manifest.files), losses=lost)


def _source(parts: Sequence[_Part]) -> Source:
    weighted = sorted([part.run.manifest.counter_fingerprint(), *part.fraction] for part in parts)
    named = " + ".join(f"{part.run.directory} x {_shown(part.weight)}" for part in parts)
    return Source("runs", manifest.fingerprint(weighted), named)


def _shown(weight: Fraction) -> str:
    """A weight for people: as a decimal number where it is one."""
    decimal = f"{float(weight):.15g}"
    return decimal if Fraction(decimal) == weight else str(weight)


def _totals(parts: Sequence[_Part]) -> list[combine_worker.TotalTask]:
    return [
        combine_worker.TotalTask(part.run.counter_path, part.run.manifest.counter_fingerprint(), part.fraction)
        for part in parts
    ]


def _pieces(parts: Sequence[_Part], executor: Executor) -> int:
    """The pieces of all runs together, as they will count; `TrainingError` where they are too many."""
    return sum(pieces for _, pieces in executor.run(combine_worker.total, _totals(parts)))


def _combined(
    opened: Opened,
    parts: Sequence[_Part],
    pieces: int,
    options: Options,
    executor: Executor,
    listener: Listener,
    stages: Stages,
) -> count.Counted:
    started = time.monotonic()
    listener(StageStarted(count.COMBINING, len(parts), "runs"))
    tasks = _totals(parts)
    statistics = replace(sum((part.statistics for part in parts), ChunkStatistics()), pieces=pieces)
    with sources.beside(opened.run) as place:
        rows = sources.combine_parts(
            opened.run,
            [(task.path, task.fingerprint) for task in tasks],
            place,
            statistics,
            options,
            executor,
            {task.path: task.weight for task in tasks if task.weight != (1, 1)},
        )
        stages.untouched = False
        sources.settle(opened, place)
    elapsed_s = time.monotonic() - started
    listener(StageEnded(count.COMBINING, elapsed_s))
    return count.as_counted(opened.run, rows, statistics, {count.COMBINING: elapsed_s})
