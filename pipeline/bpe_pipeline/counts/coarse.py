"""The second count, for superwords: pre-tokens of the coarse pattern, in a run directory of its own inside the run's.

It reads the same files with the same special tokens, and has a plan of its own, since chunks end where pre-tokens of
its pattern do. It depends on no merge, so it serves every first stage. Like any count it is resumed and extended.
"""

import contextlib
from dataclasses import replace

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.coarse_worker import FitTask, pre_tokens_cut
from bpe_pipeline.counts.combine import combine_counters
from bpe_pipeline.counts.count import combine_chunks, count_chunks
from bpe_pipeline.counts.counted import Counted, as_counted, find_counted
from bpe_pipeline.counts.counter_file import Parts
from bpe_pipeline.pattern.compiled import CompiledPattern
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import RUN, Directory, fingerprint
from bpe_pipeline.run.manifest import RUNS, Run
from bpe_pipeline.run.open_run import open_run, replace_run
from bpe_pipeline.run.options import READING_OPTIONS, TrainOptions
from bpe_pipeline.run.patterns import coarse_pattern, slowness
from bpe_pipeline.run.plan import Plan, dependencies_of, list_corpus
from bpe_pipeline.run.runner import OF_SUPERWORDS, Runner
from bpe_pipeline.run.source import Source, Weighted
from bpe_pipeline.storage import absolute, named
from bpe_pipeline.storage.atomic import make_directory


def refuse_without_texts(options: TrainOptions, source: Source | None) -> None:
    """Raise `UsageError` for superwords from counts whose texts cannot be read again. source: where they came from."""
    if options.first_stage is None or source is None:
        return
    if source.parts:
        list(map(_counted_from_texts, source.parts))
        return
    remedy = "combine the runs again" if source.kind == RUNS else "train from the files themselves"
    raise UsageError(
        f"superwords need the texts for a second count, and the counts come from {source.description}: {remedy}"
    )


def _counted_from_texts(weighted: Weighted) -> Run:
    """Return a run of a mixture; `UsageError` if its texts cannot be read again, `RunDirectoryError` if it changed."""
    run = manifest.require(named(weighted.run))
    if run.manifest.source is not None:
        raise UsageError(
            "superwords need the texts for a second count, and the counts of "
            f"{run.directory} come from {run.manifest.source.description}: take runs that were counted from files"
        )
    _refuse_weights(run)
    if run.manifest.counter_fingerprint() != weighted.counts:
        raise RunDirectoryError(f"{run.directory} has other counts than those that were combined; combine them again")
    return run


def _refuse_weights(run: Run) -> None:
    if run.manifest.weights:
        raise UsageError(
            f"superwords count the text a second time, without the weights of {run.directory}: count each "
            "input in a run of its own, and `combine` these runs with --weight"
        )


def count_again(runner: Runner, run: Run, counted: Counted, options: TrainOptions) -> Counted:
    """Return what was counted with the second count, as far as that is missing, if the options ask for superwords."""
    if (pattern := coarse_pattern(options)) is None:
        return counted
    if not options.pattern == options.superword_pattern == "superbpe":
        _warn_of_misfit(runner, counted, pattern)
    run.directory.require_lock()
    make_directory(run.coarse_location)
    with runner.naming(OF_SUPERWORDS):
        if run.manifest.source is None:
            _, coarse = _count_coarse(runner, run, pattern, options)
        else:
            coarse = _count_mixture(runner, run, run.manifest.source, pattern, options)
    return replace(counted, coarse=coarse)


def _warn_of_misfit(runner: Runner, counted: Counted, pattern: CompiledPattern) -> None:
    """Warn if the coarse pattern cuts inside pre-tokens of the first stage: some of its tokens would never be used."""
    share, example = runner.executor.one(pre_tokens_cut, FitTask(counted.path, counted.fingerprint, pattern))
    if share:
        runner.warn(
            f"--superword-pattern would split pre-tokens of --pattern apart, {share:.2%} of the different ones, such "
            f"as {example[:40]!r}: tokens learned from them are never used where it splits; --pattern superbpe fits, "
            "or a --superword-pattern of your own"
        )


def _count_mixture(runner: Runner, run: Run, mixed: Source, pattern: CompiledPattern, options: TrainOptions) -> Counted:
    """Count the coarse pre-tokens of each run that was added up, in its own directory, and combine them with the
    weights.

    These are multiplied by the number that makes all of them whole: nothing is rounded.
    """
    counters, weights, statistics, parts = [], {}, ChunkStatistics(), list[Weighted]()
    with contextlib.ExitStack() as locks:
        for one in mixed.parts:
            part = _counted_from_texts(one)
            locks.enter_context(part.directory.locked())
            coarse, counted = _count_coarse(runner, part, pattern, options)
            counters.append(coarse.counter)
            weight = (one.weight[0] * mixed.scale // one.weight[1], 1)
            weights[coarse.counter_path] = weight
            parts.append(Weighted(absolute(coarse.directory.location), coarse.counter[1], weight))
            statistics += counted.statistics
        digest = fingerprint(sorted([mark, weights[path]] for path, mark in counters))
        described, is_weighted = f"the second counts of {mixed.description}", {*weights.values()} != {(1, 1)}
        source = Source(RUNS, digest, described, tuple(parts), weighted=is_weighted)
        settings = replace(coarse.manifest, plan=Plan(), source=source)
        coarse = Run(Directory(run.coarse_location, RUN), settings)
        if manifest.load_undamaged(run.coarse_location) != coarse:
            coarse = replace_run(coarse)
        whole = find_counted(coarse, runner.executor)
        if whole is None:
            whole = as_counted(coarse, combine_counters(runner, coarse, Parts(counters, statistics, weights)))
    return whole


def _count_coarse(runner: Runner, run: Run, pattern: CompiledPattern, options: TrainOptions) -> tuple[Run, Counted]:
    """Return the run of the coarse pre-tokens of a run, counted. Raises as counting does."""
    coarse = _open_coarse(runner, run, pattern, options)
    manifest.remove_partial(coarse)
    counted = find_counted(coarse, runner.executor)
    if counted is None:
        runner.warn(slowness(pattern))
        counted = combine_chunks(runner, coarse, count_chunks(runner, coarse, pattern))
    return coarse, counted


def _open_coarse(runner: Runner, run: Run, pattern: CompiledPattern, options: TrainOptions) -> Run:
    """Open the run of the coarse pre-tokens of a run; another one is replaced."""
    _refuse_weights(run)
    files = tuple(file.path for file in run.manifest.plan.files)
    reading = {name: run.manifest.counting[name] for name in READING_OPTIONS}
    listed = replace(options, **reading, inputs=files, exclude=None, output=run.coarse_location)
    coarse_options = replace(listed, pattern=pattern.expression)
    run.manifest.plan.added_files(run.directory, list_corpus(coarse_options, runner.listener), runner.listener)
    overwrite = not _continues(run, coarse_options)
    return open_run(runner, Directory(run.coarse_location, RUN), replace(coarse_options, overwrite=overwrite))


def _continues(run: Run, options: TrainOptions) -> bool:
    """Whether the directory holds this count, perhaps of fewer files."""
    stored = manifest.load_undamaged(run.coarse_location)
    if stored is None or stored.manifest.counting != options.of_stage("count"):
        return False
    now = {tuple(dependencies_of(file)) for file in run.manifest.plan.files}
    return all(tuple(dependencies_of(file)) in now for file in stored.manifest.plan.files)
