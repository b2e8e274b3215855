"""`combine`: the counts of several runs, each with a weight, become those of a new run.

So mixtures of corpora are tried without counting again. Weights are relative: they are scaled so that the smallest is
1. Every count is multiplied by its run's weight, rounded half up, and then the runs are added; the arithmetic is of
whole numbers, so the order of runs changes nothing.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import PipelineError, RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands import report
from bpe_pipeline.corpus.listing import resolved
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.counted import as_counted, require_counted
from bpe_pipeline.counts.counter_file import CounterFacts, Parts
from bpe_pipeline.counts.elsewhere import take_counts, take_part
from bpe_pipeline.executors import Executor
from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import fingerprint
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import Manifest, Run
from bpe_pipeline.run.mixture import Mixture
from bpe_pipeline.run.open_run import replace_run
from bpe_pipeline.run.options import READING_OPTIONS, RECORDS, OutputOptions, flag_of
from bpe_pipeline.run.plan import require_weights
from bpe_pipeline.run.runner import opened
from bpe_pipeline.run.source import Source, Weighted
from bpe_pipeline.run.values import parse_weight, relative
from bpe_pipeline.storage import Location, absolute, existing, location, open_file, same_location
from bpe_pipeline.storage.atomic import whole_file

Text = tuple[object, ...]  # what identifies a counted text: a counter, a source, or a file
_NO_FILE = 2  # at most that many members
_CUTTING_NAMES = {"expression": "--pattern", "by": "what splits", "unicode": "the Unicode version"}


def directory_of(summary: Summary) -> Location:
    """Return the run that was made."""
    return summary.directory


def run_combine(
    locations: Sequence[Location],
    weights: Sequence[Any],
    options: OutputOptions,
    executor: Executor,
    listener: Listener,
    mixture: Mixture | None = None,
) -> Summary:
    """Combine and report. mixture: makes the weights."""
    runs = [manifest.require(location) for location in locations]
    _factors(locations, weights)  # refuses what does not fit before the runs are compared
    require_addable(runs, listener)
    mixed = weigh(locations, weights, executor, mixture)
    parts = parts_of(runs, mixed, executor)
    if options.output is not None and any(same_location(options.output, location) for location in locations):
        raise UsageError(f"--output {options.output} is one of the runs to combine; choose another")
    source = Source(
        manifest.RUNS,
        fingerprint(sorted([part.counts, *part.weight] for part in mixed)),
        " + ".join(f"{run.directory} x {part.shown_weight}" for run, part in zip(runs, mixed, strict=True)),
        mixed,
        counted=not_combined(runs, mixed),
        weighted=bool(parts.weights) or any(run.manifest.weighted for run in runs),
        mixture=mixture.named(list(map(str, locations))) if mixture is not None and str(mixture) else None,
    )
    combination = Combination(runs[0], source, parts, locations)
    return write_combination(combination, options, executor, listener)


def weigh(
    locations: Sequence[Location],
    weights: Sequence[Any],
    executor: Executor,
    mixture: Mixture | None,
    names: Sequence[str] = (),
) -> tuple[Weighted, ...]:
    """Return runs with their weights, the smallest as 1. names: by which a mixture knows them; none: by locations."""
    runs, factors = list(map(manifest.require, locations)), _factors(locations, weights)
    names = names or list(map(str, locations))
    mixture = mixture and mixture.named(names)
    sizes = [text_bytes(run, executor) for run in runs]
    if mixture is not None:
        factors = relative(list(map(Fraction, mixture.weights(dict(zip(names, sizes, strict=True))))))
    return tuple(
        Weighted(absolute(run.directory.location), run.counter[1], (by.numerator, by.denominator), size)
        for run, by, size in zip(runs, factors, sizes, strict=True)
    )


def parts_of(runs: Sequence[Run], mixed: Sequence[Weighted], executor: Executor) -> Parts:
    """Return the counters of runs, to be added with these weights."""
    statistics = sum((require_counted(run, executor).statistics for run in runs), ChunkStatistics())
    counters = [run.counter for run in runs]
    weighted = {path: part.weight for (path, _), part in zip(counters, mixed, strict=True) if part.weight != (1, 1)}
    return Parts(counters, statistics, weighted)


def text_bytes(run: Run, executor: Executor) -> int:
    """Return the bytes of the pre-tokens in a run's counts, with its own weights."""
    return require_counted(run, executor).statistics.counted_bytes


def copy_counts(location: Location, given: Mapping[str, Any], executor: Executor, listener: Listener) -> Location:
    """Make a run of the counts of another one; what is known of where they came from is kept."""
    run, options = manifest.require(location), making_of(given)
    if run.manifest.source is None:
        return run_combine([location], (), options, executor, listener).directory
    parts = Parts([run.counter], require_counted(run, executor).statistics)
    combination = Combination(run, run.manifest.source, parts, [location])
    return write_combination(combination, options, executor, listener).directory


def copy_run(location: Location, given: Mapping[str, Any], executor: Executor, listener: Listener) -> Location:
    """Make a run of the inputs of another one, by copies of its counters: their weights may be others then.

    A copy that was stopped is completed. Raises `RunDirectoryError` if the output holds other counts.
    """
    run, options = manifest.require(location), making_of(given)
    require_counted(run, executor)
    with opened(options, executor, listener) as (_, directory):
        stored = None if options.overwrite else manifest.load(directory.location)
        if stored is None:
            directory.refuse_linked_directories()
            if not options.overwrite:
                directory.refuse_foreign_files()
            directory.refuse_corpus_inside(file.path for file in run.manifest.plan.files)
            kept = replace(run.manifest, merging=None, vocab_size=None, tokenizers=(), written={}, special={})
            stored = replace_run(Run(directory, kept), results=True)
        originals, copies = run.chunk_counters(), stored.chunk_counters()
        if [mark for _, mark in originals] != [mark for _, mark in copies]:
            raise RunDirectoryError(
                f"{directory} holds other counts than {location}; choose another --output, or start again with "
                "--overwrite"
            )
        of_copies = {copy: original for (original, _), (copy, _) in zip(originals, copies, strict=True)}
        of_copies[stored.counter_path] = run.counter_path
        for (copy, original), is_there in zip(of_copies.items(), existing([*of_copies]), strict=True):
            if not is_there:
                with whole_file(copy) as partial, open_file(original) as source, partial.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    return directory.location


def making_of(given: Mapping[str, Any]) -> OutputOptions:
    """Return the options that say where a new run is made, among all that were given for it."""
    names = {option.name for option in fields(OutputOptions)}
    return make_options(OutputOptions, {name: value for name, value in given.items() if name in names})


@dataclass(frozen=True)
class Combination:
    """Counters that become a run, with pre-tokens of the kind that another has.

    like: that other run; locations: of all runs that are read.
    """

    like: Run
    source: Source
    parts: Parts
    locations: Sequence[Location]


def write_combination(
    combination: Combination, options: OutputOptions, executor: Executor, listener: Listener
) -> Summary:
    """Write the run of a combination."""
    like = combination.like.manifest
    counting = like.counting
    unread = counting | {name: RECORDS[name].default for name in READING_OPTIONS}
    with opened(options, executor, listener) as (runner, directory):
        for path in combination.locations:  # as they are named, and with links resolved
            names = [path.absolute(), path.resolve()] if isinstance(path, Path) else [path]
            directory.refuse_corpus_inside(map(str, names), "one of the runs to combine")
        new = Run(directory, Manifest(unread, like.cutting, source=combination.source))
        if runner.part is not None:
            run, done = take_part(runner, new, options, combination.parts)
            facts = as_counted(run, CounterFacts(0, combination.parts.statistics)).facts
            return report.summary_of(runner, run, facts, part=done)
        with take_counts(runner, new, options, lambda *_: combination.parts) as (run, counted):
            return report.write_summary(runner, run, counted)


def _factors(directories: Sequence[Location], weights: Sequence[Any]) -> list[Fraction]:
    if not directories:
        raise UsageError("combine needs the directories of runs; name one or more")
    if weights:
        require_weights(weights, directories, "runs")
    for index, directory in enumerate(directories):
        if any(same_location(directory, other) for other in directories[:index]):
            raise UsageError(f"the run {directory} is named twice; name it once, with the sum of its weights")
    factors = []
    for weight in weights or [1] * len(directories):
        try:
            factors.append(parse_weight(weight))
        except ValueError as error:
            raise UsageError(f"--weight: expected {error}, not {str(weight)[:80]!r}") from None
    try:
        return relative(factors)
    except ValueError as error:
        raise UsageError(f"--weight: expected {error}") from None


def not_combined(runs: Sequence[Run], mixed: Sequence[Weighted]) -> tuple[Weighted, ...]:
    """Return the runs of which these were combined, if any was, each with the product of its weights."""
    if all(run.manifest.source is None or not run.manifest.source.parts for run in runs):
        return ()
    counted = list[Weighted]()
    for run, whole in zip(runs, mixed, strict=True):
        for part in (run.manifest.source and run.manifest.source.parts) or (replace(whole, weight=(1, 1)),):
            weight = Fraction(*whole.weight) * Fraction(*part.weight)
            counted.append(replace(part, weight=(weight.numerator, weight.denominator)))
    return tuple(counted)


def require_addable(runs: Sequence[Run], listener: Listener) -> None:
    """Refuse runs whose pre-tokens are different things, or that have counted the same text; warn of what may be the
    same.

    Their sum would count that text twice.
    """
    for run in runs[1:]:
        require_comparable(runs[0], run)
    known, copied = dict[Text, Run](), dict[Text, str]()
    for run in runs if len(runs) > 1 else ():
        texts = dict(_texts_of(run, listener))
        if shared := [key for key in texts if key in known]:
            both = [key for key in shared if len(key) == max(map(len, shared))]  # files, if there are any
            more = f" and {len(both) - 1:,} more" if len(both) > 1 else ""
            raise UsageError(
                f"{known[both[0]].directory} and {run.directory} have both counted {texts[both[0]]}{more}, which their "
                "sum would count twice: combine runs without text in common, and give a run a larger --weight if its "
                "text is to count more"
            )
        files = {key[1:]: name for key, name in texts.items() if len(key) > _NO_FILE}
        if alike := [name for key, name in files.items() if key in copied]:
            first = copied[next(key for key in files if key in copied)]
            same = f"{alike[0]} has the size and the samples of {first}"
            count = format_count(len(alike), "files")
            listener(Notice("warning", f"{run.directory} counts {count} that other runs seem to count too: {same}"))
        known |= dict.fromkeys(texts, run)
        copied |= files


def _texts_of(run: Run, listener: Listener) -> Iterator[tuple[Text, str]]:
    """List what a run has counted, with names: itself, the runs that it was combined of, and their files or sources."""
    stored, source = run.manifest, run.manifest.source
    yield (stored.counter_fingerprint(),), str(run.directory)
    if source is None:
        left_out = {number for number, weight in enumerate(stored.weights) if not Fraction(weight)}
        for index, file in enumerate(stored.plan.files):
            if not (left_out and stored.plan.owners[index] in left_out):
                field = "" if file.format == "text" else stored.counting["text_field"]
                yield (resolved(file.path), file.size, file.digest, field), file.path
        return
    if not source.parts:
        yield (source.kind, source.digest), source.description
    for part in (*source.mixed, *source.parts):
        yield (part.counts,), part.run
    for part in source.parts:
        try:
            counted = manifest.require(location(part.run))
            if counted.manifest.counter_fingerprint() == part.counts:
                yield from _texts_of(counted, listener)
                continue
        except (PipelineError, OSError):
            pass
        why = f"{part.run}, whose counts are in {run.directory}, is gone or was counted again"
        listener(Notice("warning", f"{why}: whether another run has its files too is unknown"))


def require_comparable(first: Run, other: Run) -> None:
    """Raise `RunDirectoryError` naming the first thing that makes two runs' pre-tokens different things."""
    differing = [
        (flag_of(name), first.manifest.counting.get(name), other.manifest.counting.get(name))
        for name in first.manifest.counting | other.manifest.counting
        if name not in READING_OPTIONS and first.manifest.counting.get(name) != other.manifest.counting.get(name)
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
