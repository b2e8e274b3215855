"""Deterministic automaton -> one table that cuts text without ever going back.

A plain scan reads on after a match in the hope of a longer one and, when that fails, goes back to where the
match ended. Here a state holds both: the scan in hope and, behind it, the scan that began at the end of its
latest match, as if the hope had already failed; and so on, a chain of scans. When one dies, the next simply
is what happened. When one finds a longer match, the boundaries that had been written behind it are taken
back.

Boundaries are written one character late: the newest is `pending` in the state, because most of those that
are taken back fall at once. So a step may write a boundary one character back, and one here, before the
character; it may first retract some of those written before. What a chain cannot hold (it grew too long, an
attempt failed that may have held several pieces) becomes SLOW: the kernel drops what is not final and takes
one piece with the plain automaton.

Text that no match covers is an open stretch: the end of a chain where each character begins a new attempt.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from pipeline.pattern.dfa import Machine, Threads

BACK, HERE, RETRACT_SHIFT, SLOW = (
    1,
    2,
    2,
    32,
)  # flags of an entry: write, write, how many to take back (0..7), give up
MAX_SCANS = 5
MAX_TENTATIVE = 7
MAX_STATES = 2048


class Tail(IntEnum):
    """What happens if the last scan of a chain dies without a match."""

    SCAN = 0  # SLOW
    YOUNG = 1  # it read one character only: an open stretch begins with that
    OPEN = 2  # not a scan: an open stretch
    ATTEMPT = 3  # it read one character inside an open stretch: that goes on
    BEGIN = 4  # it has read nothing: a text begins


@dataclass(frozen=True, slots=True)
class State:
    """A chain of scans: their threads, and for each the boundaries written since the scan before it began.

    The boundary at which the last one began is not among them while it is `pending`; neither is an ATTEMPT's.
    """

    scans: tuple[tuple[Threads, int], ...]
    pending: bool
    tail: Tail

    @property
    def tentative(self) -> int:
        """How many written boundaries may yet be taken back."""
        return sum(written for _, written in self.scans[1:])


@dataclass(slots=True)
class Chain:
    """A state while a step builds it; `back`: the scan that counts the boundary written one character back."""

    scans: list[tuple[Threads, int]]
    pending: bool = False
    tail: Tail = Tail.SCAN
    back: int | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """Per state and class `next << 16 | flags`; per state the written boundaries that are not final.

    State 0 begins a text. `arrivals[state]`: the classes of the character before the state (a bit each).
    """

    table: list[list[int]]
    tentative: list[int]
    arrivals: list[int]


def fold(machine: Machine) -> Folded:
    """The folded table of a machine. It always exists; what does not fit is SLOW."""
    return _Folder(machine).run()


class _Folder:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.end = machine.end
        self.fresh = [after for after, _ in machine.row(machine.start)]
        self.certain_of: dict[Threads, bool] = {}
        self.mortal_of: dict[Threads, bool] = {}

    def run(self) -> Folded:
        begin = State(((self.machine.start, 0),), pending=False, tail=Tail.BEGIN)
        numbers = {begin: 0}
        order = [begin]
        table: list[list[int]] = []
        arrivals = [0]
        for state in order:
            line = []
            for cls in range(self.machine.classes):
                following, flags = self.step(state, cls) or (begin, SLOW)
                if flags < SLOW and cls != self.end:
                    number = numbers.setdefault(following, len(numbers))
                    if number == len(order):
                        if number < MAX_STATES:
                            order.append(following)
                            arrivals.append(0)
                        else:
                            del numbers[following]
                            number, flags = 0, SLOW
                    arrivals[number] |= (flags < SLOW) << cls
                    line.append(number << 16 | flags)
                else:
                    line.append(flags)
            table.append(line)
        return Folded(table, [state.tentative for state in order], arrivals)

    def certain(self, threads: Threads) -> bool:
        """Whether a match ends before the next character, whatever that is."""
        if threads not in self.certain_of:
            self.certain_of[threads] = all(matched for _, matched in self.machine.row(threads))
        return self.certain_of[threads]

    def mortal(self, threads: Threads) -> bool:
        """Whether the scan can die at the next character without a match there."""
        if threads not in self.mortal_of:
            row = self.machine.row(threads)
            self.mortal_of[threads] = any(not after and not matched for after, matched in row)
        return self.mortal_of[threads]

    def step(self, state: State, cls: int) -> tuple[State, int] | None:
        """The state after a character of class `cls` and the entry's flags; None for SLOW."""
        chain = Chain([])
        if state.tail is Tail.BEGIN:
            self.begin(chain, cls, 0)
            chain.pending = False  # a text begins there anyway
            return self.settled(state, chain)
        written = 0  # boundaries of scans that died, which the next living scan counts
        for index, (threads, own) in enumerate(state.scans):
            written += own
            if index == len(state.scans) - 1:
                if not self.last(state, threads, cls, written, chain):
                    return None
                break
            after, matched = self.machine.row(threads)[cls]
            if after:
                chain.scans.append((after, written))
                written = 0
            if matched:
                self.begin(chain, cls, written)
                break
        return self.settled(state, chain)

    def last(self, state: State, threads: Threads, cls: int, written: int, chain: Chain) -> bool:
        """Steps the last scan of a chain; False for SLOW."""
        here = len(chain.scans)
        tail = state.tail
        after, matched = ((), False) if tail is Tail.OPEN else self.machine.row(threads)[cls]
        died = not after and not matched
        if died and tail is Tail.SCAN:
            return False
        if state.pending or (tail is Tail.ATTEMPT and not died):
            chain.back = here
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
        """Steps an open stretch: it goes on, ends for certain, or is questioned by an attempt."""
        attempt = self.fresh[cls]
        if not attempt:
            chain.scans.append(((), written))
            chain.tail = Tail.OPEN
        elif self.certain(attempt):
            self.begin(chain, cls, written)
        else:
            chain.scans.append((attempt, written))
            chain.tail = Tail.ATTEMPT

    def begin(self, chain: Chain, cls: int, written: int) -> None:
        """A piece ends before this character: begins the next scan with it."""
        threads = self.fresh[cls]
        chain.scans.append((threads, written))
        chain.pending = True
        chain.tail = Tail.OPEN if not threads else Tail.YOUNG if self.mortal(threads) else Tail.SCAN

    def settled(self, before: State, chain: Chain) -> tuple[State, int] | None:
        """The chain without what can never happen, and the boundaries to write for it."""
        for index, (threads, _) in enumerate(chain.scans[:-1]):
            if self.certain(threads):
                del chain.scans[index + 1 :]
                chain.pending, chain.tail = False, Tail.SCAN
                break
        if chain.back is not None and chain.back >= len(chain.scans):
            chain.back = None
        kept = sum(written for _, written in chain.scans) - (chain.back is not None)
        # Boundaries written before this step that are in no scan any more. A dead scan's own are in its
        # successor's.
        retract = sum(written for _, written in before.scans) - kept
        flags = BACK if chain.back is not None else 0
        if len(chain.scans) == 1 and chain.pending:
            flags |= HERE
            chain.pending = False
        scans = (chain.scans[0][0], 0), *chain.scans[1:]
        state = State(scans, chain.pending, chain.tail)
        if retract > 7 or state.tentative > MAX_TENTATIVE or len(scans) > MAX_SCANS:
            return None
        return state, flags | retract << RETRACT_SHIFT


def provable_pairs(folded: Folded, classes: int) -> Iterable[bytes]:
    """Per class `a` a byte for each class `b`: 1 if a piece ends between characters of these classes in any text.

    And then ending the document there changes no piece on the left, and the right is cut as if it stood
    alone: in every state that a character of class `a` leads to, the step with `b` writes a boundary here,
    leads where a text that begins with `b` leads, and does to the boundaries before exactly what the end of
    the document would do. A SLOW entry anywhere means that states do not tell all, so nothing is proved.
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
