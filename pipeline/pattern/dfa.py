"""Program -> deterministic automaton whose states are ordered lists of threads.

A state is the tuple of instructions at which threads wait, best first. They are followed only when the class of the
next character (or the end of the document) is known, so look-ahead is a condition on that class. MATCH means: a match
ends before this character. Threads of lower priority are then dropped; those of higher priority live on and may find a
longer match, which replaces it. A scan that starts at a piece's first character and remembers the latest match until no
thread is left finds exactly what a backtracking engine finds.

`Machine` computes this lazily; `raw_table` walks all of it.
"""

from functools import cache

from pipeline.pattern.nfa import CHAR, LOOK, SPLIT, Program
from pipeline.pattern.tree import Refusal

MAX_STATES = 4096
MAX_CLASSES = 255  # together with the end of the document
MAX_STEPS = 20_000_000  # of making the automaton, some seconds

Threads = tuple[int, ...]
Row = list[tuple[Threads, bool]]  # per class: the threads after it, and whether a match ends before it


class Machine:
    """Steps of one program; `classes` counts the end of the document, which is the last class."""

    def __init__(self, program: Program, masks: tuple[int, ...], classes: int) -> None:
        self.code = program.code
        self.start: Threads = (program.start,)
        self.masks = masks
        self.classes = classes
        self.end = classes - 1
        self.steps = 0
        self.row = cache(self._row)
        self.reachable = cache(self._reachable)

    def _row(self, threads: Threads) -> Row:
        """Return what each class does to a list of threads."""
        waiting = [item for thread in threads for item in self.reachable(thread)]
        self._note_steps(len(waiting) * self.classes)
        row: Row = []
        for cls in range(self.classes):
            bit = 1 << cls
            after: dict[int, None] = {}
            matched = False
            for guard, target in waiting:
                if guard & bit:
                    if target < 0:
                        matched = True
                        break
                    after[target] = None
            row.append((tuple(after), matched))
        return row

    def _note_steps(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise Refusal("the automaton takes too long to make", 0)

    def _reachable(self, thread: int) -> list[tuple[int, int]]:
        """Return what a thread can do at a character, best first: (classes, thread after it or -1 for MATCH)."""
        found = []
        seen: dict[int, int] = {}
        stack = [(thread, (1 << self.classes) - 1)]
        while stack:
            at, guard = stack.pop()
            guard &= ~seen.get(at, 0)
            if not guard:
                continue
            seen[at] = seen.get(at, 0) | guard
            self._note_steps(1)
            operation, *operands = self.code[at]
            if operation == SPLIT:
                stack.extend((choice, guard) for choice in reversed(operands))
            elif operation == LOOK:
                end = operands[1] << self.end
                stack.append((operands[2], guard & (self.masks[operands[0]] | end)))
            elif operation == CHAR:
                found.append((guard & self.masks[operands[0]], operands[1]))
            else:
                found.append((guard, -1))
        return found


def check_claims(machine: Machine, program: Program) -> None:
    """Raise `Refusal` unless every possessive part of the program is proved to cut as a greedy one.

    That is so if what follows can always match the empty string: then the first way through the part is never given up.
    Or if the part repeats a single set, and what follows neither continues nor ends at a character of that set: then
    giving up a repetition never helps.
    """
    for claim in program.claims:
        at_match = at_any = 0
        for classes, after in machine.reachable(claim.follow):
            at_any |= classes
            at_match |= classes if after < 0 else 0
        always = at_match == (1 << machine.classes) - 1
        if not always and (claim.chars is None or at_any & machine.masks[claim.chars]):
            raise Refusal("a possessive part that might differ from a greedy one", claim.position)


def raw_table(machine: Machine) -> list[list[int]]:
    """Return per state and class `next << 1 | matched`; state 0 is dead, 1 starts a piece. `Refusal` if too many."""
    numbers: dict[Threads, int] = {(): 0, machine.start: 1}
    table = [[0] * machine.classes]
    order = [machine.start]
    for threads in order:
        line = []
        for after, matched in machine.row(threads):
            number = numbers.setdefault(after, len(numbers))
            if number > len(order):
                order.append(after)
            line.append(number << 1 | matched)
        table.append(line)
        if len(order) > MAX_STATES:
            raise Refusal(f"the automaton needs more than {MAX_STATES} states", 0)
    return table
