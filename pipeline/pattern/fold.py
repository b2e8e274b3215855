"""Deterministic automaton -> one table that cuts text without ever going back.

A plain scan reads on after a match in the hope of a longer one; if that fails, it goes back to where the match ended.
Here a state holds both: the hopeful scan and, behind it, the scan that starts at the end of its latest match, as if the
hope had already failed; and so on, a chain of scans. When one dies, the next one is what happened. When one finds a
longer match, the boundaries that were written behind it are retracted.

Boundaries are written one character late: the newest is `pending` in the state, because most retractions concern the
newest. So a step may write a boundary one character back, and one here, before the character; it may first retract some
that were written before. What a chain cannot hold (it grew too long, an attempt failed that may have held several
pieces) becomes SLOW: the kernel drops what is not final and takes one piece with the plain automaton.

Text that no match covers is an open stretch: the end of a chain where each character starts a new attempt.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache

from pipeline.pattern.dfa import Machine, Threads

# Flags of an entry: write one character back, write here, how many to retract (0..7), give up.
BACK, HERE, RETRACT_SHIFT, SLOW = 1, 2, 2, 32
MAX_SCANS = 5
MAX_TENTATIVE = 7
MAX_STATES = 2048


class Tail(IntEnum):
    """What happens if the last scan of a chain dies without a match."""

    SCAN = 0  # SLOW
    YOUNG = 1  # it read one character only: an open stretch starts with that
    OPEN = 2  # not a scan: an open stretch
    ATTEMPT = 3  # it read one character inside an open stretch, which continues
    BEGIN = 4  # it has read nothing: a text starts


@dataclass(frozen=True, slots=True)
class State:
    """A chain of scans: their threads, and for each the boundaries written since the scan before it started.

    The boundary at which the last one started is not among them while it is `pending`; neither is an ATTEMPT's.
    """

    scans: tuple[tuple[Threads, int], ...]
    pending: bool
    tail: Tail

    @property
    def tentative(self) -> int:
        """How many written boundaries may still be retracted."""
        return sum(written for _, written in self.scans[1:])


@dataclass(slots=True)
class Chain:
    """A state while a step builds it; `back`: the scan that counts the boundary written one character back."""

    scans: list[tuple[Threads, int]] = field(default_factory=list)
    pending: bool = False
    tail: Tail = Tail.SCAN
    back: int | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """Per state and class `next << 16 | flags`; per state the number of written boundaries that are not final.

    State 0 starts a text. `arrivals[state]`: the classes of the character before the state (a bit each).
    """

    table: list[list[int]]
    tentative: list[int]
    arrivals: list[int]


def fold(machine: Machine) -> Folded:
    """Return the folded table of a machine. It always exists; what does not fit is SLOW."""
    folder = _Folder(machine)
    begin = State(((machine.start, 0),), pending=False, tail=Tail.BEGIN)
    numbers = {begin: 0}
    order = [begin]
    table: list[list[int]] = []
    arrivals = [0]
    for state in order:
        line = []
        for cls in range(machine.classes):
            following, flags = folder.step(state, cls) or (begin, SLOW)
            number = 0
            if flags < SLOW and cls != machine.end:
                number = numbers.get(following, len(order))
                if number == MAX_STATES:
                    number, flags = 0, SLOW
                elif number == len(order):
                    numbers[following] = number
                    order.append(following)
                    arrivals.append(0)
                arrivals[number] |= (flags < SLOW) << cls
            line.append(number << 16 | flags)
        table.append(line)
    return Folded(table, [state.tentative for state in order], arrivals)


class _Folder:
    """Steps from state to state."""

    def __init__(self, machine: Machine) -> None:
        self.row = machine.row
        self.fresh = [after for after, _ in machine.row(machine.start)]
        self.certain = cache(self._certain)
        self.mortal = cache(self._mortal)

    def _certain(self, threads: Threads) -> bool:
        """Return whether a match ends before the next character in any case."""
        return all(matched for _, matched in self.row(threads))

    def _mortal(self, threads: Threads) -> bool:
        """Return whether the scan can die at the next character without a match there."""
        return any(not after and not matched for after, matched in self.row(threads))

    def step(self, state: State, cls: int) -> tuple[State, int] | None:
        """Return the state after a character of class `cls` and the entry's flags; None for SLOW."""
        chain = Chain()
        if state.tail is Tail.BEGIN:
            self.begin(chain, cls, 0)
            chain.pending = False  # a text starts there anyway
            return self.settled(state, chain)
        written = 0  # boundaries of scans that died, which the next living scan counts
        for threads, own in state.scans[:-1]:
            written += own
            after, matched = self.row(threads)[cls]
            if after:
                chain.scans.append((after, written))
                written = 0
            if matched:
                self.begin(chain, cls, written)
                return self.settled(state, chain)
        if not self.last(state, cls, written + state.scans[-1][1], chain):
            return None
        return self.settled(state, chain)

    def last(self, state: State, cls: int, written: int, chain: Chain) -> bool:
        """Step the last scan of a chain; return False for SLOW."""
        tail = state.tail
        after, matched = ((), False) if tail is Tail.OPEN else self.row(state.scans[-1][0])[cls]
        died = not after and not matched
        if died and tail is Tail.SCAN:
            return False
        if state.pending or (tail is Tail.ATTEMPT and not died):
            chain.back = len(chain.scans)
            written += 1
        if tail is Tail.OPEN or died:
            self.stretch(chain, cls, written)
            return True
        if tail is Tail.ATTEMPT and not matched and not self.certain(after):
            return False
        if after:
            chain.scans.append((after, written))
            written = 0
        if matched:
            self.begin(chain, cls, written)
        return True

    def stretch(self, chain: Chain, cls: int, written: int) -> None:
        """Step an open stretch: it continues, ends for certain, or an attempt may end it."""
        attempt = self.fresh[cls]
        if attempt and self.certain(attempt):
            self.begin(chain, cls, written)
        else:
            chain.scans.append((attempt, written))
            chain.tail = Tail.ATTEMPT if attempt else Tail.OPEN

    def begin(self, chain: Chain, cls: int, written: int) -> None:
        """End a piece before this character: start the next scan with it."""
        threads = self.fresh[cls]
        chain.scans.append((threads, written))
        chain.pending = True
        chain.tail = Tail.OPEN if not threads else Tail.YOUNG if self.mortal(threads) else Tail.SCAN

    def settled(self, before: State, chain: Chain) -> tuple[State, int] | None:
        """Return the chain without what can never happen, and the boundaries to write for it."""
        for index, (threads, _) in enumerate(chain.scans[:-1]):
            if self.certain(threads):
                del chain.scans[index + 1 :]
                chain.pending, chain.tail = False, Tail.SCAN
                break
        writes_back = chain.back is not None and chain.back < len(chain.scans)
        kept = sum(written for _, written in chain.scans) - writes_back
        # Written before this step, and in no scan any more; a dead scan's own are in its successor's.
        retract = sum(written for _, written in before.scans) - kept
        flags = BACK if writes_back else 0
        if len(chain.scans) == 1 and chain.pending:
            flags |= HERE
            chain.pending = False
        scans = (chain.scans[0][0], 0), *chain.scans[1:]
        state = State(scans, chain.pending, chain.tail)
        if retract > 7 or state.tentative > MAX_TENTATIVE or len(scans) > MAX_SCANS:
            return None
        return state, flags | retract << RETRACT_SHIFT


def provable_pairs(folded: Folded, classes: int) -> Iterable[bytes]:
    """Return per class `a` a byte for each class `b`: 1 if a piece always ends between characters of these classes.

    Ending the document there then changes no piece on the left, and the right is cut as a document of its own: in every
    state that a character of class `a` leads to, the step with `b` writes a boundary here, leads where a text that
    starts with `b` leads, and does to the boundaries before exactly what the end of the document would do. With a SLOW
    entry anywhere, states do not hold everything, so nothing is proved.
    """
    real = classes - 1
    if any(entry & SLOW for line in folded.table for entry in line):
        return [bytes(real)] * real
    pairs = []
    for a in range(real):
        lines = [line for line, arrival in zip(folded.table, folded.arrivals, strict=True) if arrival >> a & 1]
        provable = bytearray(real)
        for b in range(real):
            provable[b] = bool(lines) and all(
                line[b] == ((folded.table[0][b] & ~0xFFFF) | HERE | (line[real] & ~HERE)) for line in lines
            )
        pairs.append(bytes(provable))
    return pairs
