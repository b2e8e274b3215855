"""Counts that no corpus listing gave: combined from other runs, imported, or counted from an iterator.

Such a run has a `source` in its manifest instead of a plan. `merge` continues with its combined counter as with any
other, and nothing can be counted into it. The counter is made first, next to what the directory holds, which is
replaced only when it is whole: a source that is refused, or a command that is killed, costs nothing.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.base.errors import RunDirectoryError
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.combine import combine_task
from pipeline.counts.combine_worker import combine
from pipeline.counts.count import COMBINING, Counted, as_counted, check_facts, find_counted
from pipeline.run import manifest
from pipeline.run.manifest import Manifest, Run, Source
from pipeline.run.open_run import replace_run
from pipeline.run.work import Work
from pipeline.storage import Location
from pipeline.storage.atomic import parts_next_to, put

PartPath = Callable[[int], Path]  # where the part with this number is written


@dataclass(frozen=True)
class Parts:
    """Counters with their fingerprints, and what they were made of. weights: of some, as numerator and denominator."""

    counters: Sequence[tuple[Location, str]]
    statistics: ChunkStatistics
    weights: Mapping[Location, tuple[int, int]] = field(default_factory=dict)


def take_counts(
    work: Work,
    counting: dict[str, Any],
    cutting: dict[str, str],
    source: Source,
    make: Callable[[Run, PartPath], Parts],
) -> tuple[Run, Counted]:
    """Return the run of this source: the one in the directory, or a new one of the counters that `make` returns.

    Raises `RunDirectoryError` if the directory holds another run.
    """
    stored = None if work.options.overwrite else manifest.load(work.directory.location)
    if stored is not None:
        _refuse_other(stored, counting, cutting, source)
        counted = find_counted(stored, work.executor)
        if counted is not None:
            work.times[COMBINING] = None
            return stored, counted
    else:
        work.directory.refuse_linked_directories()
        if not work.options.overwrite:
            work.directory.refuse_foreign_files()
    run = stored or Run(work.directory, Manifest(counting, cutting, source=source))
    work.untouched = True
    with _next_to(run.counter_path) as (part_path, whole):
        parts = make(run, part_path)
        check_facts(as_counted(run, parts.statistics.pieces, parts.statistics).facts, work.options)
        with work.stage(COMBINING, len(parts.counters), "counters"):
            task = combine_task(work, run, parts.counters, parts.statistics, parts.weights, whole)
            [(_, rows)] = work.executor.run(combine, [task])
        work.untouched = False
        work.directory.require_lock()
        if stored is None:
            run = replace_run(run, keep=[], results=True)
        publish(whole, run.counter_path)
    return run, as_counted(run, rows, parts.statistics)


def _refuse_other(stored: Run, counting: dict[str, Any], cutting: dict[str, str], source: Source) -> None:
    known = stored.manifest.source
    if known is None or (known.kind, known.digest) != (source.kind, source.digest):
        came_from = "a corpus" if known is None else known.description
        raise RunDirectoryError(
            f"{stored.directory} holds another run: its counts came from {came_from}, not from {source.description} as "
            "it is now; choose another --output, or start again with --overwrite"
        )
    manifest.refuse_other_options(stored.directory, "counting", stored.manifest.counting, counting)
    manifest.refuse_other_options(stored.directory, "counting", stored.manifest.cutting, cutting)


@contextlib.contextmanager
def _next_to(counter: Location) -> Iterator[tuple[PartPath, Path]]:
    """Yield paths next to the combined counter, of its parts and of the whole; deleted before and after the block."""
    with parts_next_to(counter) as path:

        def remove_parts() -> None:
            for part in path.parent.glob(f".{path.name}.*.part"):
                part.unlink(missing_ok=True)

        remove_parts()
        try:
            yield (
                lambda number: path.with_name(f".{path.name}.{number:06d}.part"),
                path.with_name(f".{path.name}.whole.part"),
            )
        finally:
            remove_parts()


def publish(complete: Path, where: Location) -> None:
    """Rename or upload a complete counter."""
    try:
        put(complete, where)
    except OSError as error:
        reason = error.strerror or error
        raise RunDirectoryError(f"{where} cannot be written: {reason}; run the same command again") from None
