"""Syntax tree -> Thompson program over character classes.

An instruction is a tuple: (CHAR, set, next), (SPLIT, first choice, second choice, ...), (LOOK, set, end,
next) or (MATCH,). Sets are indices into `Program.sets`. Choices stand in order of priority, so that a
simulation which keeps its threads in order finds the match that a backtracking engine finds first.

Possessive quantifiers and atomic groups are compiled as greedy ones, together with a list of claims that has
to hold for this to be exact. `check_claims` proves each on the program or refuses the pattern:
- what follows can always match the empty string, so the first way through the group is never given up; or
- the body is a single set, and what follows cannot go on at any character of that set, so giving up a
  repetition never helps.
"""

from dataclasses import dataclass

from pipeline.pattern.classes import CharSet
from pipeline.pattern.parse import Alternation, Atomic, Chars, Look, Node, Refusal, Repeat, Sequence

CHAR, SPLIT, LOOK, MATCH = range(4)
MAX_INSTRUCTIONS = 20_000
MAX_REACHED = 100_000  # instructions, each under every condition, that the proof of a claim may look at

Instruction = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """At `follow`, giving up what a possessive part took never helps (`chars`: its set, if it is one)."""

    follow: int
    chars: int | None
    position: int


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions, where they begin, the sets they name, and what has to be proved about them."""

    code: tuple[Instruction, ...]
    start: int
    sets: tuple[CharSet, ...]
    claims: tuple[Claim, ...]


def assemble(node: Node) -> Program:
    """The program of a tree; `Refusal` when it grows too long."""
    assembler = _Assembler()
    start = assembler.node(node, assembler.emit((MATCH,)))
    code = tuple(assembler.code)
    return Program(code, start, tuple(assembler.sets), tuple(assembler.claims))


class _Assembler:
    """Builds backwards: each method gets the instruction that follows and gives the one to begin with."""

    def __init__(self) -> None:
        self.code: list[Instruction] = []
        self.sets: dict[CharSet, int] = {}
        self.claims: list[Claim] = []

    def emit(self, instruction: Instruction) -> int:
        if len(self.code) >= MAX_INSTRUCTIONS:
            raise Refusal("the pattern is too long once its counted quantifiers are written out", 0)
        self.code.append(instruction)
        return len(self.code) - 1

    def set_index(self, chars: CharSet) -> int:
        return self.sets.setdefault(chars, len(self.sets))

    def node(self, node: Node, follow: int) -> int:
        match node:
            case Chars(chars):
                return self.emit((CHAR, self.set_index(chars), follow))
            case Look(chars, end):
                return self.emit((LOOK, self.set_index(chars), int(end), follow))
            case Sequence(parts):
                for part in reversed(parts):
                    follow = self.node(part, follow)
                return follow
            case Alternation(branches):
                return self.emit((SPLIT, *[self.node(branch, follow) for branch in branches]))
            case Atomic(body, position):
                self.claims.append(Claim(follow, None, position))
                return self.node(body, follow)
            case Repeat():
                return self.repeat(node, follow)

    def repeat(self, node: Repeat, follow: int) -> int:
        if node.mode == "possessive":
            chars = self.set_index(node.body.chars) if isinstance(node.body, Chars) else None
            self.claims.append(Claim(follow, chars, node.position))
        lazy = node.mode == "lazy"
        if node.most is None:
            loop = self.emit((SPLIT,))
            body = self.node(node.body, loop)
            self.code[loop] = (SPLIT, follow, body) if lazy else (SPLIT, body, follow)
            entry = loop
        else:
            entry = follow
            for _ in range(node.most - node.least):
                body = self.node(node.body, entry)
                entry = self.emit((SPLIT, follow, body) if lazy else (SPLIT, body, follow))
        for _ in range(node.least):
            entry = self.node(node.body, entry)
        return entry


def check_claims(program: Program, masks: tuple[int, ...]) -> None:
    """`Refusal` unless every claim is proved; `masks` holds the bits of the classes of each set."""
    for claim in program.claims:
        reach = _Reach(program, masks, claim.follow)
        if reach.always_matches:
            continue
        if claim.chars is None or reach.classes & masks[claim.chars]:
            raise Refusal("a possessive part that might differ from a greedy one", claim.position)


class _Reach:
    """What can come next at an instruction: a match, always; and the classes at which something goes on."""

    def __init__(self, program: Program, masks: tuple[int, ...], start: int) -> None:
        self.always_matches = False
        self.classes = 0
        seen: set[tuple[int, int]] = set()
        stack = [(start, -1)]  # an instruction, and the classes that the look-aheads before it allow
        while stack:
            at, guard = stack.pop()
            if (at, guard) in seen:
                continue
            if len(seen) >= MAX_REACHED:
                self.classes = -1  # not proved
                return
            seen.add((at, guard))
            operation, *operands = program.code[at]
            if operation == SPLIT:
                stack.extend((choice, guard) for choice in operands)
            elif operation == LOOK:
                stack.append((operands[2], guard & masks[operands[0]]))
            elif operation == CHAR:
                self.classes |= guard & masks[operands[0]]
            else:
                self.always_matches |= guard == -1
                self.classes |= guard
