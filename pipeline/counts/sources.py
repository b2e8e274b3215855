"""Runs whose counts no corpus listing gave: combined from other runs, imported, or counted from an iterator.

Such a run is told by the `source` in its manifest. Its combined counter is all that there is; `merge` goes on with it
as with any other, and nothing can be counted into it.

The counter is made first, beside everything that the directory holds, and only when it is whole does that make way for
the new run: a source that is refused, or a command that is killed while it reads, has cost nothing.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.errors import RunDirectoryError
from pipeline.counts import combine_worker
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.combine import combine_task
from pipeline.executors import Executor
from pipeline.run import directory as run_directory
from pipeline.run import manifest
from pipeline.run.manifest import Manifest, Run, Source
from pipeline.run.options import Options
from pipeline.storage import Location
from pipeline.storage.atomic import parts_beside, put


@dataclass(frozen=True)
class Opened:
    """A run. is_new: nothing of it lies in its directory yet, and what does lies there until `settle`."""

    run: Run
    is_new: bool


def open_run(
    directory: Location, counting: dict[str, Any], cutting: dict[str, str], source: Source, *, overwrite: bool
) -> Opened:
    """The run of this source: the one in the directory, or a new one, of which nothing is written or removed yet.

    Raises `RunDirectoryError` where the directory holds another run.
    """
    stored = None if overwrite else manifest.load(directory)
    if stored is not None:
        _refuse_other_source(stored, source)
        manifest.refuse_other_options(directory, "counting", stored.manifest.counting, counting)
        manifest.refuse_other_options(directory, "counting", stored.manifest.cutting, cutting)
        return Opened(stored, is_new=False)
    if not overwrite:
        run_directory.refuse_foreign_files(directory)
    return Opened(Run(directory, Manifest(counting, cutting, (), (), source=source)), is_new=True)


def _refuse_other_source(stored: Run, source: Source) -> None:
    known = stored.manifest.source
    if known is None or (known.kind, known.digest) != (source.kind, source.digest):
        came_from = "a corpus" if known is None else known.description
        raise RunDirectoryError(
            f"{stored.directory} holds another run: its counts came from {came_from}, not from {source.description} as "
            "it is now; choose another --output, or start anew with --overwrite"
        )


@dataclass(frozen=True)
class Beside:
    """Local files beside a run's combined counter: parts of it by number, and in the end all of it."""

    path: Path

    def part(self, number: int) -> Path:
        """Where a part of the counts lies."""
        return self.path.with_name(f".counts.{number:06d}.part")

    @property
    def whole(self) -> Path:
        """Where the combined counter lies until it is put in its place."""
        return self.path.with_name(".counts.whole.part")


@contextlib.contextmanager
def beside(run: Run) -> Iterator[Beside]:
    """Where counts lie until all are combined, for as long as the block. What a killed command left goes first."""
    with parts_beside(run.counter_path) as path:

        def sweep() -> None:
            for part in path.parent.glob(".counts.*.part"):
                part.unlink(missing_ok=True)

        sweep()
        try:
            yield Beside(path)
        finally:
            sweep()


def combine_parts(
    run: Run,
    parts: Sequence[tuple[Location, str]],
    place: Beside,
    statistics: ChunkStatistics,
    options: Options,
    executor: Executor,
    weights: dict[Location, tuple[int, int]] | None = None,
) -> int:
    """Write the combined counter of a run, beside, from counters with their fingerprints; gives its rows."""
    task = combine_task(run, parts, statistics, options, weights, beside=place.whole)
    [(_, rows)] = executor.run(combine_worker.combine, [task])
    return rows


def settle(opened: Opened, place: Beside) -> None:
    """Put the combined counter in its place; where the run is new, what the directory held makes way and it begins.

    A kill in between leaves a part of what is to make way, or the new run, which the same command completes.
    """
    run = opened.run
    run_directory.require_ours(run.directory)
    if opened.is_new:
        run_directory.clear(run.directory)
        manifest.save(run)
    try:
        put(place.whole, run.counter_path)
    except OSError as error:
        raise RunDirectoryError(
            f"{run.counter_path} cannot be written: {error.strerror or error}; run the same command again"
        ) from None
