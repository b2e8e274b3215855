"""The story of `sweep`: mixtures of counted runs times vocabulary sizes, measured, and one of them recommended.

Each mixture is a run in `mixtures/`, made by `combine`, with one merge list for all sizes, so any point is what
`combine` and `merge` would make. Finished combinations and merge lists are kept: the same command resumes, and one with
more sizes, weights or runs learns only what is new.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from bpe_pipeline.base.errors import UsageError, refuse_if
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.commands.combine import Combination, combination_of, require_addable, write_combination
from bpe_pipeline.commands.merge import open_merging, run_merge
from bpe_pipeline.commands.report import text_of
from bpe_pipeline.commands.run_report import short_names
from bpe_pipeline.corpus.listing import files_in_both, find_files
from bpe_pipeline.corpus.sampling import Chosen, choose
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.sweep.options import SweepOptions
from bpe_pipeline.extensions.sweep.result import TABLE, Swept, write_table
from bpe_pipeline.extensions.sweep.rule import recommend
from bpe_pipeline.extensions.sweep.sweep_worker import SweepTask, measure
from bpe_pipeline.merges import merge
from bpe_pipeline.reports.result import plain
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import Kind, fingerprint
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.mixture import BOTH, asked_mixture
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.run.runner import Stage, opened
from bpe_pipeline.run.values import shown_weight
from bpe_pipeline.storage import named
from bpe_pipeline.tokenizer.export import Trained, check_before_work

SWEEP = Kind("sweep.json", re.compile(r"sweep\.parquet|mixtures"), 1)
_FILE_BYTES = 1 << 22  # of each held-out file that are measured
_MOST_MIXTURES, _LONGEST_NAME = 256, 160


def run_sweep(options: SweepOptions, executor: Executor, listener: Listener) -> Swept:
    """Measure every mixture at every size."""
    if not options.runs or options.output is None:
        raise UsageError("sweep needs counted RUNs to mix, and --output DIR for the table and the runs of its mixtures")
    homes = list(map(manifest.require, options.runs))
    merging = options.to(TrainOptions, vocab_size=options.vocab_size, output=None, overwrite=False)
    of_first = make_options(TrainOptions, {**homes[0].manifest.counting, **merging.explicit})
    broker = check_before_work(of_first, listener)
    require_addable(homes, listener)
    runs = dict(zip(short_names(options.runs), homes, strict=True))
    mixtures = dict(_mixtures(options, runs, executor))
    sources, files = {name: run.counter for name, run in runs.items()}, _held_out(options, runs, listener)
    with opened(options, executor, listener, broker, kind=SWEEP) as (runner, directory):
        if not options.overwrite and directory.read_manifest() is None:
            directory.refuse_foreign_files()
        directory.write_manifest({"points": []})
        directory.remove_partial([SWEEP.manifest, TABLE])
        tasks = list[SweepTask]()
        for name, (within, combination) in mixtures.items():
            making = options.replace(output=directory / "mixtures" / name)
            trained = _learn(combination, making, merging, executor, listener)
            tasks.append(SweepTask(name, trained, within, sources, files))
        stage = Stage("measuring", "mixtures", measure, tasks, [1] * len(tasks), grant=runner.reserve(len(tasks)))
        points = tuple(point for of_mixture in runner.run(stage) for point in of_mixture)
        chosen = recommend(points)
        directory.write_manifest({"points": plain(points)})
        write_table(directory / TABLE, points)
        best = merging.replace(vocab_size=(chosen.vocab_size,))
        summary, _ = run_merge(directory / "mixtures" / chosen.mixture, best, executor, listener)
    return Swept(directory.location, points, chosen, summary.tokenizer_directories[0])


def _mixtures(
    options: SweepOptions, runs: Mapping[str, Run], executor: Executor
) -> Iterator[tuple[str, tuple[list[str], Combination]]]:
    """Yield the name of each mixture that is to be tried, the names of its runs, and what they are together."""
    listed = options.weights or {}
    unknown, weights = sorted(listed.keys() - runs), [listed.get(name, [Fraction(1)]) for name in runs]
    evened = options.temperatures or ("1",) * bool(options.shares)
    refuse_if(
        (unknown, f"--weight: {', '.join(unknown)} is none of the names {', '.join(runs)}"),
        (evened and listed, BOTH),
        (math.prod(map(len, weights)) > _MOST_MIXTURES, f"--weight: at most {_MOST_MIXTURES} mixtures"),
        (not any(itertools.chain(*weights)), "--weight: nothing is left with weights of 0; change one"),
    )
    for temperature in evened:
        mixture = asked_mixture(temperature, options.shares)
        made = combination_of(options.runs, (), mixture, {}, executor, lambda _: None)
        yield _name(runs, made, f"temperature-{temperature}"), ([*runs], made)
    for chosen in () if evened else filter(any, itertools.product(*weights)):
        by = {name: weight for name, weight in zip(runs, chosen, strict=True) if weight}
        homes = [runs[name].directory.location for name in by]
        made = combination_of(homes, [*by.values()], None, {}, executor, lambda _: None)
        yield _name(by, made), ([*by], made)


def _name(names: Iterable[str], combination: Combination, *words: str) -> str:
    """Name a mixture, and its directory, by its runs and their weights."""
    weights = [shown_weight(Fraction(*text.weight)) for text in combination.manifest.texts]
    parts = (f"{name}-x{weight}" for name, weight in zip(names, weights, strict=True))
    name = "+".join((*words, *parts)).replace("/", "_")
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}-{fingerprint(name)}"


def _learn(
    combination: Combination, making: SweepOptions, merging: TrainOptions, executor: Executor, listener: Listener
) -> Trained:
    """Make the run of a mixture and its merges, for the largest size, as far as they are missing."""
    home = write_combination(combination, making, executor, listener).directory
    with open_merging(home, merging, executor, listener) as (runner, run, counted, options, _):
        run = manifest.store_merging(run, options)
        return Trained(merge.learn(runner, merge.learning_of(run), counted, options), pattern_of(options), options)


def _held_out(options: SweepOptions, runs: Mapping[str, Run], listener: Listener) -> dict[str, Sequence[Chosen]]:
    """Choose from the held-out files, without those that a run has counted, themselves or as copies."""
    files = find_files(map(str, options.held_out)).files if options.held_out else []
    counted = {file.path for run in runs.values() for file in files_in_both(files, text_of(run).files)}
    left = [file for file in files if file.path not in counted]
    if counted:
        refuse_if((not left, "--held-out: all of it was counted; name other text, or omit it to measure the sources"))
        some = ", ".join(sorted(counted)[:3])
        listener(Notice("warning", f"--held-out names text that was counted, which is left out: {some}"))
    names = short_names([named(file.path) for file in left])
    return {name: choose([file], _FILE_BYTES) for name, file in zip(names, left, strict=True)}
