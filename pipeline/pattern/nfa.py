"""Syntax tree -> Thompson program over character classes.

An instruction is a tuple: (CHAR, set, next), (SPLIT, first choice, second choice, ...), (LOOK, set, end, next) or
(MATCH,). Sets are indices into `Program.sets`. Choices are in order of priority: a simulation that keeps its threads in
order finds the match that a backtracking engine finds first.

Possessive quantifiers and atomic groups are compiled as greedy ones, with a list of claims that must hold for this to
be exact. `dfa.check_claims` proves them or refuses the pattern.
"""

from dataclasses import dataclass

from pipeline.pattern.classes import CharSet
from pipeline.pattern.tree import Alternation, Atomic, Chars, Look, Node, Refusal, Repeat, Sequence

CHAR, SPLIT, LOOK, MATCH = range(4)
MAX_INSTRUCTIONS = 20_000

Instruction = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """At instruction `follow`, giving up what a possessive part took never helps (`chars`: its set, if it is one)."""

    follow: int
    chars: int | None
    position: int


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions, the first one to run, the sets they name, and what must be proved about them."""

    code: tuple[Instruction, ...]
    start: int
    sets: tuple[CharSet, ...]
    claims: tuple[Claim, ...]


def assemble(node: Node) -> Program:
    """Return the program of a tree; raise `Refusal` if it grows too long."""
    assembler = _Assembler()
    start = assembler.node(node, assembler.emit((MATCH,)))
    return Program(tuple(assembler.code), start, tuple(assembler.sets), tuple(assembler.claims))


class _Assembler:
    """Builds backwards: each method takes the instruction that follows and returns the first one of its node."""

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
        entry = follow if node.most is not None else self.emit((SPLIT,))
        for _ in range(1 if node.most is None else node.most - node.least):
            body = self.node(node.body, entry)
            split = (SPLIT, follow, body) if node.mode == "lazy" else (SPLIT, body, follow)
            if node.most is None:
                self.code[entry] = split  # the loop
            else:
                entry = self.emit(split)
        for _ in range(node.least):
            entry = self.node(node.body, entry)
        return entry
