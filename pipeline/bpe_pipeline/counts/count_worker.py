"""Count one chunk in a worker process, within a memory budget: a counter that outgrows it is written in parts.

A part is a counter file next to the chunk's own. Only the chunk's complete counter is a checkpoint, and a sweep of the
run directory removes the parts; but of compressed text, which is a long chunk, they are kept, and a resumed run counts
from the last checkpoint (`bpe_pipeline.counts.checkpoint`).

This module imports little, so that a worker starts fast; pyarrow is imported when the counter is written.
"""

import logging
import time
from dataclasses import replace
from typing import Any

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.corpus.skipped_or_altered import Tally
from bpe_pipeline.counts.checkpoint import Checkpoint, Checkpoints
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.combine_worker import CombineTask, combine, rewrite_as_counted
from bpe_pipeline.counts.counter_file import (
    LookTask,
    PartPath,
    Term,
    counter_partitions,
    look,
    part_paths,
    write_counter,
)
from bpe_pipeline.counts.feeding import CountTask, RegexCutter, Resumable, feed_chunk
from bpe_pipeline.counts.looks_special import LooksSpecial
from bpe_pipeline.run.stored import stored

_log = logging.getLogger(__name__)


def count_chunk(task: CountTask) -> ChunkStatistics:
    """Count one chunk, write its counter, return its statistics; `TrainingError` for a pre-token over the budget."""
    started = time.monotonic()
    cutter: Any = task.pattern.automaton or RegexCutter(task.pattern, task.budget_bytes // 2)
    if isinstance(cutter, RegexCutter):
        task = replace(task, budget_bytes=task.budget_bytes // 2, copies=2)
    with part_paths(task.output) as part_path:
        counting = _Counting(task, cutter, part_path)
        try:
            statistics, rows = counting.count()
        except RunDirectoryError:
            [facts] = look(LookTask([(task.output, task.fingerprint)]))
            if facts is None:
                raise
            return facts.statistics  # another process counted it meanwhile, and removed the parts that both had
        finally:
            counting.counter.clear_counts()
            del counting.counter  # it refers to `counting`, so only the garbage collector frees it
    elapsed_s = time.monotonic() - started
    _log.info("%s: %d bytes, %d unique pre-tokens in %.2f s", task, statistics.bytes, rows, elapsed_s)
    return statistics


class _Counting(Resumable):
    """The counter of a chunk, what of it is on disk in parts, and, if its text is compressed, checkpoints."""

    def __init__(self, task: CountTask, cutter: Any, part_path: PartPath) -> None:
        self._task, self._cutter, self._part_path = task, cutter, part_path
        compressed = any(file.compression != "none" for file, _, _ in task.spans)
        self._checkpoints = Checkpoints(task.output, task.fingerprint, None if compressed else part_path)
        last = self._checkpoints.last
        self._before = last.statistics
        self.start = (last.span, last.offset)
        self.parts = self._checkpoints.located(last.parts)
        self.looks = LooksSpecial([*task.special_tokens, *task.added_tokens], self._before.searched_bytes)
        if last.offset:
            _log.info("%s: resuming at byte %d of the text", task, last.offset)
        self.counter = task.counter(cutter, self._spill)

    def count(self) -> tuple[ChunkStatistics, int]:
        """Count the chunk and write its counter; returns its statistics, and how many different pre-tokens there
        are."""
        task = self._task
        losses = feed_chunk(task, self.counter, look=self.looks.look, resumable=self)
        statistics = self.statistics(losses)
        if not self.parts:
            partitions = counter_partitions(self.counter)
            written = write_counter(task.output, partitions, fingerprint=task.fingerprint, statistics=statistics)
        else:
            self.write_part()
            parts = [(part, self._checkpoints.part_fingerprint) for part in self.parts]
            sum_path = self._part_path("sum")
            terms = [Term(parts)]
            whole = CombineTask(
                terms, sum_path, task.fingerprint, statistics, threads=1, memory_bytes=task.budget_bytes
            )
            combine(whole)
            written = rewrite_as_counted(sum_path, task.output, whole)
        self._checkpoints.remove(self.parts)  # a resumed run would need them if the counter were not complete
        return written.statistics, written.rows

    def _spill(self, counter: _core.ChunkCounter) -> None:
        part = self._checkpoints.part_path(len(self.parts))
        write_counter(part, counter_partitions(counter), fingerprint=self._checkpoints.part_fingerprint)
        _log.info("part %d of %s: %d unique pre-tokens", len(self.parts), self._task.output.name, len(counter))
        self.parts.append(part)

    def write_part(self) -> None:
        """Write what is counted and not yet in a part, and forget it."""
        if len(self.counter):
            self._spill(self.counter)
        self.counter.clear_counts()
        _core.give_back_memory()

    def statistics(self, losses: Tally) -> ChunkStatistics:
        """Return the statistics of all that was counted, also before this process."""
        characters = self._cutter.concerned() if isinstance(self._cutter, RegexCutter) else ""
        statistics = self.counter.statistics() | self.looks.statistics()
        statistics |= {"losses": losses.kinds, "concerned_characters": characters}
        return self._before + stored(ChunkStatistics, statistics)

    def due(self) -> bool:
        """Whether a checkpoint is due; never before the text is counted that `looks` searches as a whole."""
        return self.looks.complete and self._checkpoints.due()

    def keep(self, span: int, offset: int, tally: Tally) -> None:
        """Write a checkpoint."""
        started_s = time.monotonic()
        self.write_part()
        names = tuple(part.name for part in self.parts)
        self._checkpoints.save(Checkpoint(span, offset, names, self.statistics(tally)), started_s)
