"""Counts that no corpus listing gave: combined from other runs, imported, or counted from an iterator.

Such a run has a `source` in its manifest instead of a plan. `merge` continues with its combined counter as with any
other, and nothing can be counted into it. The counter is made first, next to what the directory holds, which is
replaced only when it is whole: a source that is refused, or a command that is killed, costs nothing.
"""

import contextlib
from collections.abc import Callable, Iterator

from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.counts.combine import COMBINING, combine_counters, combine_part
from bpe_pipeline.counts.counted import Counted, as_counted, check_facts, find_counted
from bpe_pipeline.counts.counter_file import CounterFacts, PartPath, Sum, part_paths
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import COUNTS
from bpe_pipeline.run.make_options import refuse_other_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.open_run import replace_run
from bpe_pipeline.run.options import CorpusOptions, OutputOptions
from bpe_pipeline.run.parts import PartDone
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.storage.atomic import make_directory, put


@contextlib.contextmanager
def take_counts(
    runner: Runner, new: Run, options: OutputOptions, make: Callable[[Run, PartPath], Sum]
) -> Iterator[tuple[Run, Counted]]:
    """Yield the run of a source, and log: the one in the directory, or this new one of what `make` returns."""
    runner.kept = None
    directory, stored = new.directory, _stored(new, options)
    run = stored or new
    counted = None if stored is None else find_counted(stored, runner.executor)
    if counted is not None:
        runner.skip(COMBINING)
    else:
        with part_paths(run.counter_path) as part_path:
            whole = part_path("whole")
            total = make(run, part_path)
            strict = isinstance(options, CorpusOptions) and options.fail_on_loss
            check_facts(as_counted(run, CounterFacts(0, total.statistics)).facts, fail_on_loss=strict)
            counter = combine_counters(runner, run, total, whole)
            runner.kept = ""
            directory.require_lock()
            if stored is None:
                run = replace_run(run, results=True)
            with os_error_as(RunDirectoryError, f"{run.counter_path} cannot be written", "run the same command again"):
                put(whole, run.counter_path)
        counted = as_counted(run, counter)
    runner.kept = ""
    with runner.logged(directory, options, lambda: manifest.remove_partial(run)):
        yield run, counted


def take_part(runner: Runner, new: Run, options: OutputOptions, total: Sum) -> tuple[Run, PartDone]:
    """Combine the runner's part of the counts of a source, in the run that the first process makes."""
    stored = _stored(new, options)
    if stored is None and not manifest.save(new, absent=True):  # another process was first
        stored = _stored(new, options)
    run = stored or new
    make_directory(run.directory / COUNTS)
    with runner.logged(run.directory, options, lambda: None):
        return run, combine_part(runner, run, total)


def _stored(new: Run, options: OutputOptions) -> Run | None:
    """Return the run in the directory, if it is this one; `RunDirectoryError` for something else there."""
    stored = None if options.overwrite else manifest.load(new.directory.location)
    if stored is not None:
        _refuse_other(stored, new)
        return stored
    new.directory.refuse_linked_directories()
    if not options.overwrite:
        new.directory.refuse_foreign_files()
    return None


def _refuse_other(stored: Run, new: Run) -> None:
    """Raise `RunDirectoryError` if the directory holds other counts."""
    if stored.manifest.counter_fingerprint == new.manifest.counter_fingerprint:
        return
    there, wanted = (run.manifest.counting | run.manifest.cutting for run in (stored, new))
    refuse_other_options(stored.directory, "counting", there, wanted)
    came_from, now = (source.description if (source := run.manifest.source) else "a corpus" for run in (stored, new))
    other = f"not from {now}" if now != came_from else "whose counts were others then"
    raise RunDirectoryError(
        f"{stored.directory} holds another run: its counts came from {came_from}, {other}; choose another "
        "--output, or start again with --overwrite"
    )
