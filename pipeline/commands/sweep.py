"""The story of `sweep`: mixtures of counted runs times vocabulary sizes, measured, and one of them recommended.

Each mixture is an ordinary run in a directory of its own, made by `combine`, with one merge list for all sizes, so any
point is what `combine` and `merge` would make. Finished combinations, merge lists and points are kept: the same command
resumes, and one with more sizes, weights or runs computes only what is new.
"""

import itertools
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.base.events import Advanced, Listener, StageEnded, StageStarted
from pipeline.commands.combine import run_combine, shown_weight
from pipeline.commands.merge import open_merging
from pipeline.commands.report import short_names
from pipeline.corpus.files import CorpusFile, find_files
from pipeline.corpus.sampling import choose
from pipeline.counts.count import require_counted
from pipeline.executors import Executor
from pipeline.merges import merge, replay_worker
from pipeline.merges.replay_worker import SumTask
from pipeline.report import sweep_page
from pipeline.report.measure import source_names
from pipeline.report.sweep_rule import ForModel, Recommendation, recommend
from pipeline.run import manifest, memory
from pipeline.run.directory import Directory, Kind, fingerprint
from pipeline.run.options import Options
from pipeline.run.plan import dependencies_of
from pipeline.run.values import parse_weight
from pipeline.run.workers import worker_count
from pipeline.storage import Location
from pipeline.storage.atomic import whole_file, write_whole
from pipeline.tokenizer.export import Trained, export_model
from pipeline.tokenizer.sweep_worker import Measured, Point, SourceCounter, SweepTask, measure_size

SWEEP = Kind("sweep.json", re.compile(r"sweep\.(html|parquet)|tokenizer|mixtures"), 1)
_HELD_OUT_BYTES = 1 << 22  # of each file
_MOST_MIXTURES = 256
STAGE = "measuring"


@dataclass(frozen=True)
class Mixture:
    """Runs with their weights, by the names of the runs. A run with the weight 0 is left out."""

    weights: Mapping[str, Fraction]

    @property
    def name(self) -> str:
        """A name for tables and for the mixture's directory."""
        shown = (f"{name}-x{shown_weight(weight)}" for name, weight in self.weights.items())
        return "+".join(one.replace("/", "_") for one in shown)


def mixtures_of(weights: str | None, names: Sequence[str]) -> list[Mixture]:
    """Read `a=1,2 b=0,1`: every choice of one weight for each run; runs that are not named have 1.

    >>> [mixture.name for mixture in mixtures_of("a=1,2", ["a", "b"])]
    ['a-x1+b-x1', 'a-x2+b-x1']
    """
    choices = {name: [Fraction(1)] for name in names}
    for word in (weights or "").split():
        name, equals, listed = word.rpartition("=")
        if not equals or name not in choices:
            raise UsageError(f"--weights: {word!r} is not NAME=W,W... with one of the names {', '.join(names)}")
        try:
            choices[name] = [Fraction(0) if one == "0" else parse_weight(one) for one in listed.split(",")]
        except ValueError as error:
            raise UsageError(f"--weights: expected {error}, in {word!r}") from None
    chosen = itertools.islice(itertools.product(*choices.values()), _MOST_MIXTURES + 1)
    found = [Mixture({name: by for name, by in zip(names, one, strict=True) if by}) for one in chosen if any(one)]
    if not found or len(found) > _MOST_MIXTURES:
        raise UsageError(f"--weights: between 1 and {_MOST_MIXTURES} mixtures, not {len(found) or 'only zeros'}")
    return list({mixture.name: mixture for mixture in found}.values())


@dataclass(frozen=True)
class Learned:
    """A mixture with its merge list. depends_on: a fingerprint."""

    mixture: Mixture
    trained: Trained
    depends_on: str


@dataclass(frozen=True)
class Swept:
    """All points, in order of mixtures and sizes, how alike the vocabularies are, and which one to take."""

    directory: Location
    points: tuple[Point, ...]
    overlaps: tuple[sweep_page.Overlap, ...]
    recommendation: Recommendation


def run_sweep(
    locations: Sequence[Location],
    given: Mapping[str, Any],
    options: Options,
    executor: Executor,
    listener: Listener,
    *,
    weights: str | None = None,
    held_out: Sequence[Location] = (),
    model: ForModel | None = None,
) -> Swept:
    """Measure every mixture at every size. given: the options of merging that were asked for."""
    if options.output is None:
        raise UsageError("sweep needs --output DIR, where its mixtures, table and page go")
    names = short_names(locations)
    runs = dict(zip(names, locations, strict=True))
    mixtures = mixtures_of(weights, names)
    sources = _sources(runs, options, executor)
    files = find_files(map(str, held_out)).files if held_out else []
    directory = Directory(options.output, SWEEP)
    with directory.locked():
        stored = directory.read_manifest()
        if stored is None:
            directory.refuse_foreign_files()
        known = dict((stored or {}).get("points", {}))
        directory.write_manifest({"points": known})
        learned = [_learn(directory, one, runs, given, options, executor, listener) for one in mixtures]
        points = _measure(directory, learned, sources, files, options, known, executor, listener)
        chosen = recommend(points, model or ForModel())
        [trained] = (one.trained for one in learned if one.mixture.name == chosen.mixture)
        export_model(trained.model(chosen.vocab_size), directory / "tokenizer", options.export)
        merges = {size: trained.options.special.merge_budget(size) for size in options.vocab_size}
        overlaps = sweep_page.overlaps({one.mixture.name: one.trained.learned for one in learned}, merges)
        swept = Swept(directory.location, points, overlaps, chosen)
        _write(swept, directory)
    return swept


def _sources(runs: Mapping[str, Location], options: Options, executor: Executor) -> list[SourceCounter]:
    """Find each run's counter, and add up its bytes."""
    found = []
    for name, location in runs.items():
        run = manifest.require(location)
        require_counted(run, executor)
        found.append((name, run.counter_path, run.manifest.counter_fingerprint()))
    budget = memory.budget(options.memory_limit)
    workers = budget.workers(min(worker_count(options), len(found)))
    tasks = [SumTask(path, mark, budget.per_worker(workers)) for _, path, mark in found]
    sums = dict(executor.run(replay_worker.add_up, tasks, at_once=workers))
    return [SourceCounter(*one, sums[index].bytes) for index, one in enumerate(found)]


def _learn(
    directory: Directory,
    mixture: Mixture,
    runs: Mapping[str, Location],
    given: Mapping[str, Any],
    options: Options,
    executor: Executor,
    listener: Listener,
) -> Learned:
    """Return the merge list of a mixture, for the largest size."""
    home = directory / "mixtures" / mixture.name
    chosen = [runs[name] for name in mixture.weights]
    run_combine(chosen, list(mixture.weights.values()), replace(options, output=home), executor, listener)
    asked = {name: value for name, value in given.items() if name != "output"} | {"vocab_size": options.vocab_size}
    with open_merging(home, asked, executor, listener) as (work, run, counted):
        learned = merge.learn(work, run, counted)
        depends_on = fingerprint(run.manifest.merge_fingerprint(), work.options.of_stage("special"))
        return Learned(mixture, Trained(learned, work.pattern, work.options), depends_on)


def _measure(
    directory: Directory,
    learned: Sequence[Learned],
    sources: Sequence[SourceCounter],
    files: Sequence[CorpusFile],
    options: Options,
    known: dict[str, Any],
    executor: Executor,
    listener: Listener,
) -> tuple[Point, ...]:
    """Measure the points that are not stored yet, each stored as soon as it is known; returns all of them."""
    names = source_names([file.path for file in files])
    held_out = [(names[file.path], choose([file], _HELD_OUT_BYTES)) for file in files]
    texts = [sorted([one.name, one.fingerprint] for one in sources), list(map(dependencies_of, files))]
    tasks = {
        fingerprint(one.depends_on, size, *texts): SweepTask(
            one.trained, size, one.mixture.name, one.mixture.weights, sources, held_out
        )
        for one in learned
        for size in options.vocab_size
    }
    missing = [mark for mark in tasks if mark not in known]
    workers = memory.budget(options.memory_limit).workers(max(1, min(worker_count(options), len(missing))))
    started = time.monotonic()
    listener(StageStarted(STAGE, len(tasks), "vocabularies", len(tasks) - len(missing)))
    for index, point in executor.run(measure_size, [tasks[mark] for mark in missing], at_once=workers):
        known[missing[index]] = asdict(point)
        directory.write_manifest({"points": known})
        listener(Advanced(STAGE, 1))
    listener(StageEnded(STAGE, time.monotonic() - started))
    return tuple(_point(known[mark]) for mark in tasks)


def _point(stored: Mapping[str, Any]) -> Point:
    return Point(**{**stored, "measured": tuple(Measured(**one) for one in stored["measured"])})


def _write(swept: Swept, directory: Directory) -> None:
    """Write the table and the page."""
    with whole_file(directory / "sweep.parquet") as partial:
        sweep_page.write_table(partial, swept.points)
    page = sweep_page.page(str(swept.directory), swept.points, swept.overlaps, swept.recommendation)
    write_whole(directory / "sweep.html", page)


def to_json(swept: Swept) -> Mapping[str, Any]:
    """Return plain values, for `--log-json`."""
    return {**asdict(swept), "directory": str(swept.directory)}
