"""Count one chunk in a worker process, within a memory budget: a counter that outgrows it is written in parts.

A part is a counter file next to the chunk's own, with a name that a sweep of the run directory removes: only the
chunk's complete counter is a checkpoint. This module imports little, so that a worker starts fast; pyarrow is imported
when the counter is written.
"""

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pipeline import _core
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.combine_worker import CombineTask, combine
from pipeline.counts.counter_file import counter_partitions, part_paths, write_counter
from pipeline.counts.feeding import ChunkTask, RegexCutter, feed_chunk
from pipeline.counts.looks_special import LooksSpecial
from pipeline.storage import Location

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CountTask(ChunkTask):
    """One chunk for a worker, and where its counter goes; the budget includes the pieces counted so far."""

    work: ClassVar[str] = "counted"
    again: ClassVar[str] = "start from scratch with --overwrite"

    output: Location
    fingerprint: str


def count_chunk(task: CountTask) -> ChunkStatistics:
    """Count one chunk, write its counter, return its statistics. Runs in a worker process.

    Raises `TrainingError` for a piece that exceeds the budget, `InvalidTextError` under `errors="strict"`, and
    `InputError` for a file that cannot be read or changed.
    """
    started = time.monotonic()
    cutter: Any = task.pattern.automaton or RegexCutter(task.pattern, task.budget_bytes // 2)
    if isinstance(cutter, RegexCutter):
        task = replace(task, budget_bytes=task.budget_bytes // 2)
    parts: list[Path] = []
    with part_paths(task.output) as part_path:

        def spill(counter: _core.ChunkCounter) -> None:
            part = part_path(len(parts))
            write_counter(part, counter_partitions(counter), fingerprint="")
            parts.append(part)
            _log.info("part %d of %s: %d different pieces", len(parts), task.output.name, len(counter))

        counter = _core.ChunkCounter(
            cutter,
            list(task.special_tokens),
            errors=task.errors,
            max_piece_bytes=task.max_piece_bytes,
            budget_bytes=task.budget_bytes,
            spill=spill,
        )
        looks = LooksSpecial(task.special_tokens)
        losses = feed_chunk(task, counter, look=looks.look).found
        characters = cutter.concerned() if isinstance(cutter, RegexCutter) else ""
        found = counter.statistics() | looks.statistics() | {"losses": losses, "concerned_characters": characters}
        statistics = ChunkStatistics.from_values(found)
        if not parts:
            partitions = counter_partitions(counter)
            written = write_counter(task.output, partitions, fingerprint=task.fingerprint, statistics=statistics)
        else:
            if len(counter):
                spill(counter)
            counter.clear_counts()
            _core.give_back_memory()
            unnamed = [(part, "") for part in parts]
            written = combine(
                CombineTask(
                    unnamed, task.output, task.fingerprint, statistics, threads=1, memory_bytes=task.budget_bytes
                )
            )
    elapsed_s = time.monotonic() - started
    _log.info("%s: %d bytes, %d different pieces in %.2f s", task, statistics.bytes, written.rows, elapsed_s)
    return statistics
