"""Joining: what several tasks combined, each a range of the hashes, becomes one counter file.

Memory holds one partition at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.counter_file import Columns, open_counter, write_counter
from pipeline.storage import Location


@dataclass(frozen=True)
class JoinTask:
    """Counters of neighbouring ranges of hashes, in order, to become one counter file: a task for a worker.

    parts: their paths, each with the fingerprint it must have. fingerprint, statistics: of the output.
    """

    parts: Sequence[tuple[Location, str]]
    output: Location
    fingerprint: str
    statistics: ChunkStatistics

    def __str__(self) -> str:
        return f"joining {len(self.parts)} parts of {self.output}"


def join(task: JoinTask) -> int:
    """Write what the parts hold, one after the other, into one counter file; returns its rows. For a worker process.

    Raises `RunDirectoryError` for a part that is damaged or not the one expected.
    """
    rows = 0

    def columns() -> Iterator[Columns]:
        nonlocal rows
        for path, fingerprint in task.parts:
            with open_counter(path, fingerprint=fingerprint) as part:
                rows += part.rows
                for partition in range(part.partitions):
                    offsets, data, counts = part.read(partition)
                    yield offsets, data, memoryview(counts).cast("B").cast("Q")

    write_counter(task.output, columns(), fingerprint=task.fingerprint, statistics=task.statistics)
    return rows
