"""Deterministic automaton -> one table that cuts text without ever going back.

A plain scan reads on after a match in the hope of a longer one; if that fails, it goes back to where the match ended.
Here a state holds both: the hopeful scan and, behind it, the scan that starts at the end of its latest match, as if the
hope had already failed; and so on, a chain of scans. When one dies, the next one is what happened. When one finds a
longer match, the boundaries that were written behind it are retracted.

Boundaries are written one character late: the newest is `pending` in the state, because most retractions concern the
newest. So a step may write a boundary one character back, and one here, before the character; it may first retract some
that were written before. What a chain cannot hold (it grew too long, an attempt failed that may have held several
pre-tokens) becomes SLOW: the kernel drops what is not final and takes one pre-token with the plain automaton.

Text that no match covers is an open stretch: the end of a chain where each character starts a new attempt.
"""

from enum import IntEnum
from functools import cache
from typing import NamedTuple

from bpe_pipeline.pattern.automaton import Machine, Threads

# Flags of an entry: write one character back, write here, how many to retract (0..7), give up.
BACK, HERE, RETRACT_SHIFT, SLOW = 1, 2, 2, 32
NEVER = 0  # an entry of a class that cannot occur there
MAX_SCANS = 5
MAX_TENTATIVE = 7
MAX_STATES = 2048

Scan = tuple[Threads, int]  # and the boundaries written since the scan before it started


class Tail(IntEnum):
    """What happens if the last scan of a chain dies without a match."""

    SCAN = 0  # SLOW
    YOUNG = 1  # it read one character only: an open stretch starts with that
    OPEN = 2  # not a scan: an open stretch
    ATTEMPT = 3  # it read one character inside an open stretch, which continues
    BEGIN = 4  # it has read nothing: a text starts


class State(NamedTuple):
    """A chain of scans.

    The boundary at which the last one started is not among those written while it is `pending`; nor is an ATTEMPT's.
    """

    scans: tuple[Scan, ...]
    pending: bool
    tail: Tail

    @property
    def tentative(self) -> int:
        """How many written boundaries may still be retracted."""
        return sum(written for _, written in self.scans[1:])


class Folded:
    """The folded table of a machine. It always exists; what does not fit is SLOW.

    `table`: per state and class `next << 16 | flags`. State 0 starts a text. `arrivals`: per state the classes of the
    character before it (a bit each).
    """

    def __init__(self, machine: Machine) -> None:
        self.row = machine.row
        self.certain = cache(self._certain)
        self.fresh = [after for after, _ in machine.row(machine.start)]
        self.fresh_tail = [
            Tail.OPEN if not threads else Tail.YOUNG if ((), False) in self.row(threads) else Tail.SCAN
            for threads in self.fresh
        ]
        self.ahead = machine.ahead
        begin = State((((), 0),), pending=False, tail=Tail.BEGIN)
        self.order = [begin]
        self.table: list[list[int]] = []
        self.arrivals = [0]
        futures = [machine.ahead.anything if machine.ahead else frozenset()]  # per state what may follow: see ahead.py
        numbers = {(begin, futures[0]): 0}
        for state, before in zip(self.order, futures, strict=False):  # both grow
            line = []
            for cls in range(machine.classes):
                after = machine.ahead.follow(before, cls) if machine.ahead else before
                if machine.ahead and not after:
                    line.append(NEVER)
                    continue
                following, flags = self._step(state, cls) or (begin, SLOW)
                number = 0
                if flags < SLOW and cls != machine.end:
                    number = numbers.get((following, after), len(self.order))
                    if number == MAX_STATES:
                        number, flags = 0, SLOW
                    elif number == len(self.order):
                        numbers[following, after] = number
                        self.order.append(following)
                        futures.append(after)
                        self.arrivals.append(0)
                    self.arrivals[number] |= (flags < SLOW) << cls
                line.append(number << 16 | flags)
            self.table.append(line)

    @property
    def covers(self) -> bool:
        """Whether matches cover every text, and states hold everything: no stretch is open, and no step is SLOW."""
        return all(state.tail not in (Tail.OPEN, Tail.ATTEMPT) for state in self.order) and not self._slow

    @property
    def _slow(self) -> bool:
        return any(entry & SLOW for line in self.table for entry in line)

    def _certain(self, threads: Threads) -> bool:
        """Return whether a match ends before the next character in any case."""
        return all(matched for _, matched in self.row(threads))

    def _step(self, state: State, cls: int) -> tuple[State, int] | None:
        """Return the state after a character of class `cls` and the entry's flags; None for SLOW."""
        scans: list[Scan] = []
        tail, starts = Tail.SCAN, False  # `starts`: a pre-token starts with this character
        back: int | None = None  # the scan that counts a boundary written one character back
        written = 0  # boundaries of scans that died, which the next living scan counts
        for index, (threads, boundaries) in enumerate(state.scans):
            written += boundaries
            after, starts = self.row(threads)[cls]
            if index == len(state.scans) - 1:
                died, attempted = not after and not starts, state.tail is Tail.ATTEMPT
                lost = state.tail is Tail.SCAN if died else attempted and not starts and not self.certain(after)
                if lost:
                    return None
                if state.pending or (attempted and not died):
                    back = len(scans)
                    written += 1
                if died:  # an open stretch starts or continues, unless a pre-token starts for certain
                    attempt = self.fresh[cls]
                    starts = state.tail is Tail.BEGIN or self.certain(attempt)
                    if not starts:
                        scans.append((attempt, written))
                        tail = Tail.ATTEMPT if attempt else Tail.OPEN
            if after:
                scans.append((after, written))
                written = 0
            if starts:
                scans.append((self.fresh[cls], written))
                tail = self.fresh_tail[cls]
                break
        return self._settled(state, scans, starts and state.tail is not Tail.BEGIN, tail, back)

    def _settled(
        self, before: State, scans: list[Scan], pending: bool, tail: Tail, back: int | None
    ) -> tuple[State, int] | None:
        """Return the chain without what can never happen, and the boundaries to write for it."""
        for index, (threads, _) in enumerate(scans[:-1]):
            if self.certain(threads):
                del scans[index + 1 :]
                pending, tail = False, Tail.SCAN
                break
        writes_back = back is not None and back < len(scans)
        # Written before this step, and in no scan any more; a dead scan's own are in its successor's.
        retract = before.tentative - sum(count for _, count in scans) + writes_back
        writes_here = pending and len(scans) == 1
        state = State(((scans[0][0], 0), *scans[1:]), pending and not writes_here, tail)
        if retract > 7 or state.tentative > MAX_TENTATIVE or len(scans) > MAX_SCANS:
            return None
        return state, BACK * writes_back | HERE * writes_here | retract << RETRACT_SHIFT

    def provable_pairs(self) -> bytes:
        """Return per pair of classes, in a row for each first one, a byte: 1 if a pre-token always ends between them.

        Ending the document there then changes no pre-token on the left, and the right is cut as a document of its own:
        in every state that a character of class `a` leads to, the step with `b` writes a boundary here, leads where a
        text that starts with `b` leads, and does to the boundaries before exactly what the end of the document would
        do. With a SLOW entry anywhere, states do not hold everything, so nothing is proved.
        """
        *real, end = range(len(self.fresh))
        if self._slow:
            return bytes(len(real) ** 2)
        kinds = self.ahead.kinds if self.ahead else lambda cls: [cls]
        provable = bytearray()
        for a in real:
            met = sum(1 << kind for kind in kinds(a))
            lines = [line for line, arrival in zip(self.table, self.arrivals, strict=True) if arrival & met]
            provable += bytes(
                (self.ahead is None or self.ahead.independent(a, b)) and self._always_ends(lines, kinds(b), end)
                for b in real
            )
        return bytes(provable)

    def _always_ends(self, lines: list[list[int]], kinds: list[int], end: int) -> bool:
        """Return whether a pre-token ends, as at the end of a document, before any of the classes."""
        met = False
        for line in lines:
            for cls in kinds:
                if line[cls] != NEVER:
                    met = True
                    if line[cls] != (self.table[0][cls] & ~0xFFFF | HERE | line[end] & ~HERE):
                        return False
        return met
