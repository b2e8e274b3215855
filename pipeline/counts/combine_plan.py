"""How counters are combined within a memory budget: into how many partitions, by how many threads, in which groups.

Decided from the counters' footers, before any piece is read.
"""

import resource
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.counts.counter_file import CounterFile, partitions_for

_MOST_OPEN_FILES = 1024
_PARTITION_FOOTER_BYTES = 2 << 10  # of an open counter, for each partition


@dataclass(frozen=True)
class Extent:
    """The size of a counter, from its footer. If it holds one of several shares of the hashes: as if it held all.

    partition_bytes: of its largest partition in memory.
    """

    footer_bytes: int
    partition_bytes: int
    partitions: int
    rows: int
    piece_bytes: int


def extent_of(counter: CounterFile, shares: int) -> Extent:
    """Return the extent of a counter that holds one of `shares` shares."""
    footer_bytes = _PARTITION_FOOTER_BYTES * counter.partitions
    sizes = (counter.partitions * shares, counter.rows * shares, counter.piece_bytes * shares)
    return Extent(footer_bytes, counter.partition_bytes(), *sizes)


def partitions_of(extents: Sequence[Extent], shares: int) -> int:
    """Return the number of partitions of the sum: those of the finest counter, or more if the sum is large."""
    together = partitions_for(sum(e.rows for e in extents), sum(e.piece_bytes for e in extents))
    return max(shares, together // 2, *(extent.partitions for extent in extents))


def threads_for(extents: Sequence[Extent], shares: int, threads: int, memory_bytes: int) -> int:
    """Return how many of the threads the memory allows. 0: write each partition before reading the next."""
    while threads and _held_bytes(extents, shares, threads) > memory_bytes:
        threads -= 1
    return threads


def groups_of(extents: Sequence[Extent], threads: int, memory_bytes: int) -> list[list[int]]:
    """Return groups of indices, each group to be combined by itself; one group if all fit the memory.

    A group has at least two counters, so that repeated grouping ends.
    """
    most, groups, filled = open_files(), [list[int]()], 0
    for index, extent in enumerate(extents):
        needed = 2 * extent.partition_bytes + extent.footer_bytes  # as read, and as combined
        full = len(groups[-1]) >= most or (not threads and filled + needed > memory_bytes)
        if len(groups[-1]) >= 2 and full:
            groups.append([])
            filled = 0
        groups[-1].append(index)
        filled += needed
    return groups


def open_files() -> int:
    """Return how many counters may be open at the same time."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN_FILES if allowed == resource.RLIM_INFINITY else max(4, min(_MOST_OPEN_FILES, allowed // 2))


def _held_bytes(extents: Sequence[Extent], shares: int, threads: int) -> int:
    """Return the most that combining holds.

    Each thread holds a partition of each counter, Arrow's copy of the one it reads, and the sum; two more sums wait or
    are being written.
    """
    if not extents:
        return 0
    partitions = partitions_of(extents, shares)
    read = sum(extent.partition_bytes for extent in extents)
    reading = max(extent.partition_bytes for extent in extents)
    made = sum(extent.partition_bytes * extent.partitions // partitions for extent in extents)
    return sum(extent.footer_bytes for extent in extents) + threads * (read + reading + made) + 2 * made
