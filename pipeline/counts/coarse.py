"""The second count, for superwords: pieces of the coarse pattern, in a run directory of its own inside the run's.

It reads the same files with the same special tokens, and has a plan of its own, since chunks end where pieces of its
pattern do. It depends on no merge, so it serves every first stage. Like any count it is resumed and extended.
"""

import contextlib
from dataclasses import replace

from pipeline.base.errors import RunDirectoryError, UsageError
from pipeline.base.events import Event, Listener, Notice
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.coarse_worker import FitTask, pieces_cut
from pipeline.counts.combine import combine_counters
from pipeline.counts.count import COMBINING, Counted, as_counted, combine_chunks, count_chunks, find_counted
from pipeline.counts.counter_file import Parts
from pipeline.run import manifest
from pipeline.run.directory import Directory, fingerprint
from pipeline.run.files import RUN
from pipeline.run.manifest import RUNS, Run, Source, Weighted
from pipeline.run.open_run import open_run, replace_run
from pipeline.run.options import READING_OPTIONS, Options
from pipeline.run.plan import Plan, dependencies_of, list_corpus
from pipeline.run.superwords import coarse_pattern
from pipeline.run.work import Work
from pipeline.storage import named

OF_SUPERWORDS = " superwords"  # what the names of stages end with


def refuse_without_texts(options: Options, source: Source | None) -> None:
    """Raise `UsageError` for superwords from counts whose texts cannot be read again. source: where they came from."""
    if options.first_stage is None or source is None:
        return
    if source.mixed:
        list(map(_counted_from_texts, source.mixed))
        return
    remedy = "combine the runs again" if source.kind == RUNS else "train from the files themselves"
    raise UsageError(
        f"--superwords-from needs the texts for a second count, and the counts come from {source.description}: {remedy}"
    )


def _counted_from_texts(one: Weighted) -> Run:
    """Return a run of a mixture; `UsageError` if its texts cannot be read again, `RunDirectoryError` if it changed."""
    run = manifest.require(named(one.run))
    if run.manifest.source is not None:
        raise UsageError(
            "--superwords-from needs the texts for a second count, and the counts of "
            f"{run.directory} come from {run.manifest.source.description}: combine runs that were counted from files"
        )
    _refuse_weights(run)
    if run.manifest.counter_fingerprint() != one.counts:
        raise RunDirectoryError(f"{run.directory} has other counts than those that were combined; combine them again")
    return run


def _refuse_weights(run: Run) -> None:
    if run.manifest.weights:
        raise UsageError(
            f"--superwords-from counts the text a second time, without the weights of {run.directory}: count each "
            "input in a run of its own, and `combine` these runs with --weight"
        )


def count_mixture(work: Work, run: Run, mixed: Source) -> tuple[Run, Counted]:
    """Count the coarse pieces of each run that was combined, in its own directory, and combine them with the weights.

    These are multiplied by the number that makes all of them whole: nothing is rounded.
    """
    counters, weights, statistics = [], {}, ChunkStatistics()
    with contextlib.ExitStack() as locks:
        for one in mixed.mixed:
            part = _counted_from_texts(one)
            reading = {name: part.manifest.counting[name] for name in READING_OPTIONS}
            locks.enter_context(part.directory.locked())
            of_part = replace(work, directory=part.directory, options=replace(work.options, **reading))
            coarse, counted = count_coarse(of_part, part)
            counters.append((coarse.counter_path, coarse.manifest.counter_fingerprint()))
            weights[coarse.counter_path] = (one.weight[0] * mixed.scale // one.weight[1], 1)
            statistics += counted.statistics
        digest = fingerprint(sorted([mark, weights[path]] for path, mark in counters))
        described = f"the second counts of {mixed.description}"
        coarse = replace(coarse, directory=Directory(run.coarse_location, RUN))
        settings = replace(coarse.manifest, plan=Plan(), source=Source(RUNS, digest, described))
        coarse = replace(coarse, manifest=settings)
        if _stored(run) != coarse:
            coarse = replace_run(coarse, keep=[])
        whole = find_counted(coarse, work.executor)
        if whole is None:
            with work.stage(COMBINING + OF_SUPERWORDS, len(counters), "counters"):
                whole = as_counted(coarse, combine_counters(work, coarse, Parts(counters, statistics, weights)))
    return coarse, whole


def count_coarse(work: Work, run: Run) -> tuple[Run, Counted]:
    """Count the coarse pieces as far as they are not counted yet; returns their run. Raises as counting does."""
    _refuse_weights(run)
    work.directory.require_lock()
    plan, pattern = run.manifest.plan, coarse_pattern(work.options)
    assert pattern is not None, "the options ask for superwords"
    options = make_coarse(work.options, run)
    directory = Directory(run.coarse_location, RUN)
    plan.added_files(run.directory, list_corpus(options, work.listener), work.listener)
    coarse_work = replace(
        work,
        options=replace(options, overwrite=not _continues(run, options)),
        pattern=pattern,
        directory=directory,
        listener=_renaming(work.listener),
        times={},
    )
    coarse = open_run(coarse_work)
    manifest.remove_partial(coarse)
    counted = find_counted(coarse, work.executor)
    if counted is None:
        coarse_work.warn_of_regex()
        counted = combine_chunks(coarse_work, coarse, count_chunks(coarse_work, coarse))
    for name, time in coarse_work.times.items():  # of several runs the sum
        before = work.times.get(name + OF_SUPERWORDS)
        work.times[name + OF_SUPERWORDS] = time if before is None else before + (time or 0)
    return coarse, counted


def warn_of_misfit(work: Work, counted: Counted) -> None:
    """Warn if the coarse pattern cuts inside pieces of the first stage: some of its tokens would never be used."""
    pattern = coarse_pattern(work.options)
    assert pattern is not None, "the options ask for superwords"
    if work.options.pattern == work.options.superword_pattern == "superbpe":
        return
    task = FitTask(counted.path, counted.fingerprint, pattern)
    for _, (share, example) in work.executor.run(pieces_cut, [task]):
        if share:
            work.warn(
                f"--superword-pattern would cut pieces of --pattern apart, {share:.2%} of the different ones, such as "
                f"{example[:40]!r}: tokens learned from them are never used where it cuts; --pattern superbpe fits"
            )


def make_coarse(options: Options, run: Run) -> Options:
    """Return the options of the second count."""
    pattern = coarse_pattern(options)
    assert pattern is not None, "the options ask for superwords"
    files = tuple(file.path for file in run.manifest.plan.files)
    listed = replace(options, inputs=files, exclude=None, output=run.coarse_location)
    return replace(listed, pattern=pattern.expression, max_piece_bytes=None)


def _continues(run: Run, options: Options) -> bool:
    """Whether the directory holds this count, perhaps of fewer files."""
    stored = _stored(run)
    if stored is None or stored.manifest.counting != options.of_stage("count"):
        return False
    now = {tuple(dependencies_of(file)) for file in run.manifest.plan.files}
    return all(tuple(dependencies_of(file)) in now for file in stored.manifest.plan.files)


def _stored(run: Run) -> Run | None:
    """Return the second count as it is stored; None if there is none, or it is damaged."""
    try:
        return manifest.load(run.coarse_location)
    except RunDirectoryError:
        return None


def _renaming(listener: Listener) -> Listener:
    """Return a listener to which the stages of this count have names of their own."""

    def listen(event: Event) -> None:
        listener(event if isinstance(event, Notice) else replace(event, stage=event.stage + OF_SUPERWORDS))

    return listen
