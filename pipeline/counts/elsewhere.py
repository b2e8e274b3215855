"""Counts that no corpus listing gave: combined from other runs, imported, or counted from an iterator.

Such a run has a `source` in its manifest instead of a plan. `merge` continues with its combined counter as with any
other, and nothing can be counted into it. The counter is made first, next to what the directory holds, which is
replaced only when it is whole: a source that is refused, or a command that is killed, costs nothing.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from pipeline.base.errors import RunDirectoryError, os_error_as
from pipeline.counts.combine import combine_counters
from pipeline.counts.count import COMBINING, Counted, as_counted, check_facts, find_counted
from pipeline.counts.counter_file import CounterFacts, PartPath, Parts, part_paths
from pipeline.run import manifest
from pipeline.run.manifest import Manifest, Run, Source
from pipeline.run.open_run import replace_run
from pipeline.run.work import Work
from pipeline.storage.atomic import put


@contextlib.contextmanager
def take_counts(
    work: Work,
    counting: dict[str, Any],
    cutting: dict[str, str],
    source: Source,
    make: Callable[[Run, PartPath], Parts],
) -> Iterator[tuple[Run, Counted]]:
    """Yield the run of this source, and log: the one in the directory, or a new one of what `make` returns."""
    work.untouched = True
    stored = None if work.options.overwrite else manifest.load(work.directory.location)
    if stored is not None:
        _refuse_other(stored, counting, cutting, source)
    else:
        work.directory.refuse_linked_directories()
        if not work.options.overwrite:
            work.directory.refuse_foreign_files()
    run = stored or Run(work.directory, Manifest(counting, cutting, source=source))
    counted = None if stored is None else find_counted(stored, work.executor)
    if counted is not None:
        work.times[COMBINING] = None
    else:
        with part_paths(run.counter_path) as part_path:
            whole = part_path("whole")
            parts = make(run, part_path)
            check_facts(as_counted(run, CounterFacts(0, parts.statistics)).facts, work.options)
            with work.stage(COMBINING, len(parts.counters), "counters"):
                counter = combine_counters(work, run, parts, whole)
            work.untouched = False
            work.directory.require_lock()
            if stored is None:
                run = replace_run(run, keep=[], results=True)
            with os_error_as(RunDirectoryError, f"{run.counter_path} cannot be written", "run the same command again"):
                put(whole, run.counter_path)
        counted = as_counted(run, counter)
    work.untouched = False
    with work.logged(lambda: manifest.remove_partial(run)):
        yield run, counted


def _refuse_other(stored: Run, counting: dict[str, Any], cutting: dict[str, str], source: Source) -> None:
    known = stored.manifest.source
    if known is None or (known.kind, known.digest) != (source.kind, source.digest):
        came_from = "a corpus" if known is None else known.description
        raise RunDirectoryError(
            f"{stored.directory} holds another run: its counts came from {came_from}, not from {source.description} as "
            "it is now; choose another --output, or start again with --overwrite"
        )
    known_options = stored.manifest.counting | stored.manifest.cutting
    manifest.refuse_other_options(stored.directory, "counting", known_options, counting | cutting)
