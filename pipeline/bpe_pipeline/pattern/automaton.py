"""Syntax tree -> program -> deterministic automaton whose states are ordered lists of threads.

An instruction is a tuple: (CHAR, set, next), (SPLIT, first choice, second choice, ...), (LOOK, set, end, next),
(AHEAD, look-ahead, negative, next) or (MATCH,). Sets are indices into `Program.sets`. Choices are in order of priority:
a simulation that keeps its threads in order finds the match that a backtracking engine finds first.

A state is the tuple of instructions at which threads wait, best first. They are followed only when the class of the
next character (or the end of the document) is known, so look-ahead is a condition on that class. MATCH means: a match
ends before this character. Threads of lower priority are then dropped; those of higher priority live on and may find a
longer match, which replaces it. A scan that starts at a pre-token's first character and remembers the latest match
until no thread is left finds exactly what a backtracking engine finds.
"""

from functools import cache

from bpe_pipeline.pattern.ahead import LookAhead
from bpe_pipeline.pattern.classes import CharSet, Refusal, partition
from bpe_pipeline.pattern.parse import Ahead, Alternation, Atomic, Look, Node, Repeat, Sequence

CHAR, SPLIT, LOOK, AHEAD, MATCH = range(5)
MAX_INSTRUCTIONS = 20_000
MAX_STATES = 4096
MAX_STEPS = 20_000_000  # of making the automaton, some seconds

Threads = tuple[int, ...]
Row = list[tuple[Threads, bool]]  # per class: the threads after it, and whether a match ends before it


class Program:
    """The instructions of a tree, the first one to run, and the sets they name; `Refusal` if there are too many.

    Atomic groups and possessive quantifiers are compiled without their promise never to give up what they took. The
    claims list, for each, the instruction that follows it, the set that it repeats greedily (None if it is something
    else) and its position: `Machine.check` proves that giving up never helps there, or refuses the pattern.
    """

    def __init__(self, tree: Node) -> None:
        self.code: list[tuple[int, ...]] = []
        self.sets: dict[CharSet, int] = {}
        self.claims: list[tuple[int, int | None, int]] = []
        self.aheads: dict[Ahead, tuple[int, int]] = {}  # their numbers and first instructions
        self.start = self._add(tree, self._emit(MATCH))

    def _emit(self, *instruction: int) -> int:
        if len(self.code) >= MAX_INSTRUCTIONS:
            raise Refusal("the pattern is too long once its counted quantifiers are written out", 0)
        self.code.append(instruction)
        return len(self.code) - 1

    def _index(self, chars: CharSet) -> int:
        return self.sets.setdefault(chars, len(self.sets))

    def _add(self, node: Node, follow: int) -> int:
        """Write a node before the instruction `follow`, and return its first one."""
        match node:
            case CharSet():
                return self._emit(CHAR, self._index(node), follow)
            case Look(chars, end):
                return self._emit(LOOK, self._index(chars), int(end), follow)
            case Ahead(body, negative):
                if node not in self.aheads:
                    self.aheads[node] = len(self.aheads), self._add(body, self._emit(MATCH))
                return self._emit(AHEAD, self.aheads[node][0], int(negative), follow)
            case Sequence(parts):
                for part in reversed(parts):
                    follow = self._add(part, follow)
                return follow
            case Alternation(branches):
                return self._emit(SPLIT, *[self._add(branch, follow) for branch in branches])
            case Atomic(body, position):
                repeated = _fixed_start(body.body) if isinstance(body, Repeat) and not body.lazy else None
                single = self._index(repeated) if repeated else None
                self.claims.append((follow, single, position))
                return self._add(body, follow)
            case Repeat(body, least, most, lazy):
                entry = follow if most is not None else self._emit(SPLIT)
                for _ in range(1 if most is None else most - least):
                    inner = self._add(body, entry)
                    split = (SPLIT, follow, inner) if lazy else (SPLIT, inner, follow)
                    if most is None:
                        self.code[entry] = split  # the loop
                    else:
                        entry = self._emit(*split)
                for _ in range(least):
                    entry = self._add(body, entry)
                return entry


def _fixed_start(node: Node) -> CharSet | None:
    """Return the first set of a part that always takes the same number of characters; None for others."""
    match node:
        case CharSet():
            return node
        case Repeat(CharSet() as chars, least, most) if least == most:
            return chars
        case Sequence((first, *rest)) if all(map(_fixed_start, rest)):
            return _fixed_start(first)
    return None


class Machine:
    """Steps of one program, made when needed. The end of the document counts as a class, the last one.

    Where the program looks ahead, open classes have variants (see ahead.py), which are classes too.
    """

    def __init__(self, program: Program, more_sets: tuple[CharSet, ...] = ()) -> None:
        self.code = program.code
        self.start: Threads = (program.start,)
        self.partition = partition((*program.sets, *more_sets))
        self.end = self.partition.count
        self.classes = self.end + 1
        self.steps = 0
        self.masks = self.partition.masks  # per set the bits of its classes
        self.ahead_masks: list[int] = []  # per look-ahead those of the classes before which it matches
        self._forget()
        self.ahead: LookAhead | None = None
        if program.aheads:
            self.ahead = LookAhead(self.row, [start for _, start in program.aheads.values()], self.classes)
            self._add_variants(self.ahead, len(program.aheads))
        self._check(program)

    def _forget(self) -> None:
        self.row = cache(self._row)
        self.reachable = cache(self._reachable)

    def _add_variants(self, ahead: LookAhead, count: int) -> None:
        old, self.end, self.classes = self.end, ahead.classes - 1, ahead.classes
        masks = [0] * len(self.masks)
        self.ahead_masks = [0] * count
        for number, cls, verdict in ahead.meanings():
            for index, mask in enumerate(self.masks):
                masks[index] |= (cls != old and mask >> cls & 1) << number
            for index, matches in enumerate(ahead.verdicts[verdict]):
                self.ahead_masks[index] |= matches << number
        self.masks = tuple(masks)
        self._forget()

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
        reached = []
        seen: dict[int, int] = {}
        stack = [(thread, (1 << self.classes) - 1)]
        masks = self.masks
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
                stack.append((operands[2], guard & (masks[operands[0]] | operands[1] << self.end)))
            elif operation == AHEAD:
                mask = self.ahead_masks[operands[0]]
                stack.append((operands[2], guard & (~mask if operands[1] else mask)))
            elif operation == CHAR:
                reached.append((guard & masks[operands[0]], operands[1]))
            else:
                reached.append((guard, -1))
        return reached

    def _check(self, program: Program) -> None:
        """Raise `Refusal` unless the claims of the program are proved.

        One is, if what follows can always match the empty string: then the first way through the part is never given
        up. Or if the part repeats something of fixed length, and what follows neither continues nor ends at a character
        with which that can start: then giving up a repetition never helps.
        """
        for follow, chars, position in program.claims:
            at_match = at_any = 0
            for classes, after in self.reachable(follow):
                at_any |= classes
                at_match |= classes if after < 0 else 0
            always = at_match == (1 << self.classes) - 1
            if not always and (chars is None or at_any & self.masks[chars]):
                raise Refusal("a possessive part that might differ from a greedy one", position)

    def table(self) -> list[list[int]]:
        """Return per state and class `next << 1 | matched`; 0 is dead, 1 starts a pre-token; `Refusal` for too many."""
        numbers: dict[Threads, int] = {(): 0, self.start: 1}
        table = [[0] * self.classes]
        order = [self.start]
        for threads in order:
            line = []
            for after, matched in self.row(threads):
                number = numbers.setdefault(after, len(numbers))
                if number > len(order):
                    order.append(after)
                line.append(number << 1 | matched)
            table.append(line)
            if len(order) > MAX_STATES:
                raise Refusal(f"the automaton needs more than {MAX_STATES} states", 0)
        return table


_LINE_ENDED: Threads = (-1,)  # a match ended behind a line feed


class LineMachine(Machine):
    """A machine to which the end of a line is the end of the document: what is behind it is a document of its own."""

    def __init__(self, program: Program) -> None:
        line_feed = CharSet(((ord("\n"), ord("\n")),))
        super().__init__(program, (line_feed,))
        self._line_feed = self.masks[-1].bit_length() - 1

    def _row(self, threads: Threads) -> Row:
        if threads == _LINE_ENDED:
            return [((), True)] * self.classes
        row = super()._row(threads)
        after, matched = row[self._line_feed]
        ends = super()._row(after)[self.end][1]
        row[self._line_feed] = _LINE_ENDED if ends else (), matched
        return row
