"""Runs whose counts no corpus listing gave: combined from other runs, imported, or counted from an iterator.

Such a run is told by the `source` in its manifest. Its combined counter is all that there is; `merge` goes on with it
as with any other, and nothing can be counted into it.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline import combine, count, manifest, run_directory
from pipeline.atomic import parts_beside
from pipeline.config import Options
from pipeline.errors import RunDirectoryError
from pipeline.executors import Executor
from pipeline.manifest import Manifest, Run, Source
from pipeline.storage import Location


def open_run(
    directory: Location, counting: dict[str, Any], cutting: dict[str, str], source: Source, *, overwrite: bool
) -> Run:
    """The run of this source: the one in the directory, or a new one, whose manifest is saved.

    Raises `RunDirectoryError` where the directory holds another run.
    """
    stored = None if overwrite else manifest.load(directory)
    if stored is not None:
        _refuse_other_source(stored, source)
        manifest.refuse_other_options(directory, "counting", stored.manifest.counting, counting)
        manifest.refuse_other_options(directory, "counting", stored.manifest.cutting, cutting)
        return stored
    if not overwrite:
        run_directory.refuse_foreign_files(directory)
    run = Run(directory, Manifest(counting, cutting, (), (), source=source))
    run_directory.clear(directory)
    manifest.save(run)
    return run


def _refuse_other_source(stored: Run, source: Source) -> None:
    known = stored.manifest.source
    if known is None or (known.kind, known.digest) != (source.kind, source.digest):
        came_from = "a corpus" if known is None else known.description
        raise RunDirectoryError(
            f"{stored.directory} holds another run: its counts came from {came_from}, not from {source.description} as "
            "it is now; choose another --output, or start anew with --overwrite"
        )


@contextlib.contextmanager
def part_paths(run: Run) -> Iterator[Callable[[int], Path]]:
    """Where parts of the counts lie, by number, until all are combined: for as long as the block."""
    with parts_beside(run.counter_path) as beside:
        try:
            yield lambda number: beside.with_name(f".counts.{number:06d}.part")
        finally:
            for part in beside.parent.glob(".counts.*.part"):
                part.unlink(missing_ok=True)


def combine_parts(
    run: Run,
    parts: Sequence[tuple[Location, str]],
    statistics: dict[str, Any],
    options: Options,
    executor: Executor,
    weights: dict[Location, tuple[int, int]] | None = None,
) -> int:
    """Write the combined counter of a run from counters with their fingerprints; gives its rows."""
    task = count.combine_task(run, parts, statistics, options, weights)
    [(_, rows)] = executor.run(combine.combine, [task])
    return rows
