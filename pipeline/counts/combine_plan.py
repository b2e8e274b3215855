"""How counters will be combined within a bound of memory: with how many threads, in which groups, in which ranges.

Decided from what the files say of themselves, before any of them is read.
"""

import resource
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pipeline.counts.counter_file import CounterFile, open_counter, partitions_for
from pipeline.storage import Location, Remote, each

WHOLE = (0, 1)
_MOST_OPEN_FILES = 1024
_OPEN_BYTES = 2 << 10  # of what is known of a partition of an open counter
_KNOWN_BYTES = 8 << 10  # of what is known of a counter beside its partitions
_JOB_PARTITIONS = 4  # at most; a power of two
_KNOWN_SHARE = 8  # of the memory of combining, for what need not be read of counters again


@dataclass(frozen=True)
class Part:
    """A counter, the fingerprint it must have, and which of how many equal ranges of hashes it holds."""

    path: Location
    fingerprint: str | None
    share: tuple[int, int] = WHOLE


@dataclass(frozen=True)
class Extent:
    """What is known of a counter before any of it is read; as if it had the ranges of the other shares, too.

    range_bytes: of one of its ranges in memory, and of knowing all of them.
    """

    range_bytes: int
    ranges: int
    rows: int
    piece_bytes: int


@dataclass(frozen=True)
class Measured:
    """A counter that was looked at.

    counter: closed, and what need not be read of it again; None where there is no room to know it.
    """

    part: Part
    extent: Extent
    counter: CounterFile | None

    @property
    def known_bytes(self) -> int:
        """What knowing it takes."""
        return 0 if self.counter is None else _KNOWN_BYTES + _OPEN_BYTES * self.counter.partitions

    def open(self) -> CounterFile:
        """Open it, for whoever closes it."""
        if self.counter is not None:
            return self.counter.again()
        return open_counter(self.part.path, fingerprint=self.part.fingerprint)


def _extent_of(counter: CounterFile, shares: int) -> Extent:
    """Of an open counter that is one of so many shares."""
    range_bytes = counter.partition_bytes() + _OPEN_BYTES * counter.partitions
    return Extent(range_bytes, counter.partitions * shares, counter.rows * shares, counter.piece_bytes * shares)


def any_remote(parts: Iterable[Part]) -> bool:
    """Whether any of them lies in a store, where several are asked for at the same time."""
    return any(isinstance(part.path, Remote) for part in parts)


def cut(extents: Sequence[Extent], shares: int, threads: int) -> tuple[int, int]:
    """Into how many ranges the whole of all hashes is cut, and how many of them a thread combines at a time.

    Neighbours are combined together where a coarse counter's range has them all: then it is read only once.
    """
    ranges = max(
        shares,
        *(extent.ranges for extent in extents),
        partitions_for(sum(e.rows for e in extents), sum(e.piece_bytes for e in extents)) // 2,
    )
    most = _JOB_PARTITIONS if threads else 1
    return ranges, min(most, ranges // min((extent.ranges for extent in extents), default=1), ranges // shares)


def plan(parts: list[Part], threads: int, memory_bytes: int, shares: int) -> tuple[int, list[list[Measured]]]:
    """With how many threads to combine, and in which groups: one group where all fit the memory together.

    A group has at least two counters, so that there is an end. No thread: where memory is short, a range is written
    before the next is read.
    """

    measured = _measured(parts, memory_bytes // _KNOWN_SHARE)
    memory_bytes -= sum(one.known_bytes for one in measured)
    extents = [one.extent for one in measured]
    files = _open_files()
    while threads > 1 and (_held_bytes(extents, shares, threads) > memory_bytes or len(parts) * threads > files):
        threads -= 1
    if _held_bytes(extents, shares, threads) > memory_bytes:
        threads = 0
    groups: list[list[Measured]] = [[]]
    filled = 0
    for one in measured:
        group = groups[-1]
        too_many = len(group) * max(threads, 1) >= files
        too_large = not threads and _one_by_one(filled + one.extent.range_bytes) > memory_bytes
        if len(group) >= 2 and (too_many or too_large):
            groups.append([])
            filled = 0
        groups[-1].append(one)
        filled += one.extent.range_bytes
    return threads, groups


def _measured(parts: Sequence[Part], known_bytes: int) -> list[Measured]:
    """Look at every counter; what they say is kept of as many as have room in so many bytes."""

    def measure(part: Part) -> Measured:
        with open_counter(part.path, fingerprint=part.fingerprint) as counter:
            return Measured(part, _extent_of(counter, part.share[1]), counter.known())

    measured = []
    for one in each(measure, parts, remote=any_remote(parts)):
        known_bytes -= one.known_bytes
        measured.append(one if known_bytes >= 0 else replace(one, counter=None))
    return measured


def _held_bytes(extents: Sequence[Extent], shares: int, threads: int) -> int:
    """What combining holds at most.

    A thread holds a range of each counter, what Arrow makes of the one that is being read, and what came of all ranges
    that it combines at a time; what came of two more such jobs waits, or is being written.
    """
    if not extents:
        return 0
    read = sum(extent.range_bytes for extent in extents)
    ranges, job = cut(extents, shares, threads)
    made = sum(extent.range_bytes * max(1, job * extent.ranges // ranges) for extent in extents)
    reading = max(extent.range_bytes for extent in extents)
    return threads * (read + reading + made) + 2 * made


def _one_by_one(read_bytes: int) -> int:
    """What combining without threads holds: a range of each counter, and what is made of them."""
    return 2 * read_bytes


def _open_files() -> int:
    """Files that may be open at the same time for reading counters."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN_FILES if allowed == resource.RLIM_INFINITY else max(4, min(_MOST_OPEN_FILES, allowed // 2))
