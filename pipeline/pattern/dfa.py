"""Program -> deterministic automaton whose states are ordered lists of threads.

A state is the tuple of instructions at which threads wait, best first. They are followed only when the class
of the next character (or the end of the document) is known, so that look-ahead is a condition on that class.
Meeting MATCH means: a match ends before this character; threads of lower priority are then dropped, those of
higher priority live on and may find a longer match, which replaces it. A scan that starts at a piece's first
character and remembers the latest match until no thread is left finds exactly what a backtracking engine
finds.

`Machine` computes this lazily and remembers; `raw_table` walks all of it.
"""

from pipeline.pattern.nfa import CHAR, LOOK, SPLIT, Program
from pipeline.pattern.parse import Refusal

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
        self.rows: dict[Threads, Row] = {}
        self.items: dict[int, list[tuple[int, int]]] = {}
        self.steps = 0

    def row(self, threads: Threads) -> Row:
        """What each class does to a list of threads."""
        found = self.rows.get(threads)
        if found is None:
            found = self.rows[threads] = self._make_row(threads)
        return found

    def _make_row(self, threads: Threads) -> Row:
        waiting = [item for thread in threads for item in self._followed(thread)]
        self.take_steps(len(waiting) * self.classes)
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

    def take_steps(self, steps: int) -> None:
        """Note so much work; `Refusal` where it is too much altogether."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise Refusal("the automaton takes too long to make", 0)

    def _followed(self, thread: int) -> list[tuple[int, int]]:
        """Where a thread can be before a character, best first: (classes, thread after it or -1 for MATCH)."""
        found = self.items.get(thread)
        if found is not None:
            return found
        found = []
        everything = (1 << self.classes) - 1
        seen: dict[int, int] = {}
        stack = [(thread, everything)]
        while stack:
            at, guard = stack.pop()
            guard &= ~seen.get(at, 0)
            if not guard:
                continue
            seen[at] = seen.get(at, 0) | guard
            self.take_steps(1)
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
        self.items[thread] = found
        return found


def raw_table(machine: Machine) -> list[list[int]]:
    """Per state and class `next << 1 | matched`; state 0 is dead, 1 begins a piece. `Refusal` if too many."""
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
