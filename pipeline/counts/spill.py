"""A chunk's counter that outgrows its room: it is written in parts, and the parts are combined.

A part is a counter file beside the chunk's own, with a name that a sweep of the run directory removes: only the
chunk's complete counter is a checkpoint.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from pipeline import _core
from pipeline.counts import counter_file
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.combine_worker import CombineTask, combine
from pipeline.storage import Location
from pipeline.storage.scratch import own_mark

_log = logging.getLogger(__name__)
Spill = Callable[[_core.ChunkCounter], None]


def spill_to(output: Path, parts: list[Path]) -> Spill:
    """A function that writes what a counter holds as the next part beside `output`, and notes it in `parts`.

    Parts that an attempt which was killed left behind are removed; one that is still at work on a node that was given
    up fails for want of them, and cannot mix its own with ours.
    """
    for stale in output.parent.glob(f".{output.name}.*.part"):
        stale.unlink(missing_ok=True)

    def spill(counter: _core.ChunkCounter) -> None:
        part = output.with_name(f".{output.name}.{own_mark()}.{len(parts):04d}.part")
        counter_file.write_counter(part, counter_file.counter_partitions(counter), fingerprint="")
        parts.append(part)
        _log.info("part %d of %s: %d different pieces", len(parts), output.name, len(counter))

    return spill


def write_chunk(
    counter: _core.ChunkCounter,
    spill: Spill,
    parts: list[Path],
    output: Location,
    *,
    fingerprint: str,
    statistics: ChunkStatistics,
    room_bytes: int,
) -> int:
    """Write a chunk's counter, from its parts where there are any; returns its rows."""
    if not parts:
        rows = len(counter)
        counter_file.write_counter(
            output, counter_file.counter_partitions(counter), fingerprint=fingerprint, statistics=statistics
        )
        return rows
    if len(counter):
        spill(counter)
    counter.clear_counts()
    _core.give_back_memory()
    try:
        return combine(
            CombineTask([(part, "") for part in parts], output, fingerprint, statistics, 1, memory_bytes=room_bytes)
        )
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
