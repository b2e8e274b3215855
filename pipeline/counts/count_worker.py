"""Count one chunk in a worker process.

It imports little, so that a worker starts fast; pyarrow is imported when the counter is written.
"""

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pipeline import _core
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.feeding import ChunkTask, RegexCutter, feed_chunk
from pipeline.counts.spill import spill_to, write_chunk
from pipeline.storage import Location
from pipeline.storage.atomic import parts_beside

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CountTask(ChunkTask):
    """One chunk for a worker, and where its counter goes; the room is for the pieces counted so far, too."""

    work: ClassVar[str] = "counted"
    anew: ClassVar[str] = "start anew with --overwrite"

    output: Location
    fingerprint: str


def count_chunk(task: CountTask) -> ChunkStatistics:
    """Count one chunk, write its counter, return its statistics. Runs in a worker process.

    A counter that grows beyond `room_bytes` is written in parts, which are combined at the end.

    Raises `TrainingError` where a piece is too long for that room, `InvalidTextError` under `errors="strict"` and
    `InputError` for a file that cannot be read or changed.
    """
    started = time.monotonic()
    cutter: Any = task.pattern.automaton or RegexCutter(task.pattern)
    parts: list[Path] = []
    with parts_beside(task.output) as beside:
        spill = spill_to(beside, parts)
        counter = _core.ChunkCounter(
            cutter,
            list(task.special_tokens),
            errors=task.errors,
            max_piece_bytes=task.max_piece_bytes,
            room_bytes=task.room_bytes,
            spill=spill,
        )
        tally = feed_chunk(task, counter)
        characters = cutter.concerned() if isinstance(cutter, RegexCutter) else ""
        found = counter.statistics() | {"losses": tally.found, "concerned_characters": characters}
        statistics = ChunkStatistics.from_values(found)
        rows = write_chunk(
            counter,
            spill,
            parts,
            task.output,
            fingerprint=task.fingerprint,
            statistics=statistics,
            room_bytes=task.room_bytes,
        )
    elapsed_s = time.monotonic() - started
    _log.info("%s: %d bytes, %d different pieces in %.2f s", task, statistics.bytes, rows, elapsed_s)
    return statistics
