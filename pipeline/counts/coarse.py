"""The second count, for superwords: pieces of the coarse pattern, in a run directory of its own inside the run's.

It reads the same files with the same special tokens, and has a plan of its own, since chunks end where pieces of its
pattern do. It depends on no merge, so it serves every first stage. Like any count it is resumed and extended.
"""

from dataclasses import replace

from pipeline.base.errors import RunDirectoryError, UsageError
from pipeline.base.events import Event, Listener, Notice
from pipeline.counts.coarse_worker import FitTask, pieces_cut
from pipeline.counts.count import Counted, combine_chunks, count_chunks, find_counted
from pipeline.run import manifest
from pipeline.run.directory import Directory
from pipeline.run.manifest import RUN, RUNS, Run, Source
from pipeline.run.open_run import open_run
from pipeline.run.options import Options
from pipeline.run.plan import dependencies_of, list_corpus
from pipeline.run.superwords import coarse_pattern
from pipeline.run.work import Work

OF_SUPERWORDS = " superwords"  # what the names of stages end with


def refuse_without_texts(options: Options, source: Source | None) -> None:
    """Raise `UsageError` for superwords from counts whose texts cannot be read again. source: where they came from."""
    if options.first_stage is None or source is None:
        return
    remedy = "train from the files themselves"
    if source.kind == RUNS:
        remedy = f"{remedy}, all of them in one run, where each counts once: the second count has no weights"
    raise UsageError(
        f"--superwords-from needs the texts for a second count, and the counts come from {source.description}: {remedy}"
    )


def count_coarse(work: Work, run: Run) -> tuple[Run, Counted]:
    """Count the coarse pieces as far as they are not counted yet; returns their run.

    Raises as counting does, and `RunDirectoryError` if a file of the corpus changed since the run was counted.
    """
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
    work.times.update({name + OF_SUPERWORDS: time for name, time in coarse_work.times.items()})
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
    return replace(options, pattern=pattern.expression, max_piece_bytes=None, inputs=files, output=run.coarse_location)


def _continues(run: Run, options: Options) -> bool:
    """Whether the directory holds this count, perhaps of fewer files."""
    try:
        stored = manifest.load(run.coarse_location)
    except RunDirectoryError:
        return False
    if stored is None or stored.manifest.counting != options.of_stage("count"):
        return False
    now = {tuple(dependencies_of(file)) for file in run.manifest.plan.files}
    return all(tuple(dependencies_of(file)) in now for file in stored.manifest.plan.files)


def _renaming(listener: Listener) -> Listener:
    """Return a listener to which the stages of this count have names of their own."""

    def listen(event: Event) -> None:
        listener(event if isinstance(event, Notice) else replace(event, stage=event.stage + OF_SUPERWORDS))

    return listen
