"""The syntax tree of a pattern."""

from dataclasses import dataclass

from pipeline.pattern.classes import CharSet


class Refusal(Exception):  # noqa: N818 - not an error: the pattern is fine, it only runs elsewhere
    """The pattern is outside the subset: the reason, and the position in its text."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Look:
    """The empty string, if the next character is in the set, or if the document ends and `end` is true."""

    chars: CharSet
    end: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """The parts one after the other; without parts, the empty string."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """The first of the branches that leads to a match."""

    branches: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body from `least` to `most` (None: without limit) times; `mode` is greedy, lazy or possessive."""

    body: "Node"
    least: int
    most: int | None
    mode: str
    position: int


@dataclass(frozen=True, slots=True)
class Atomic:
    """Matches its body in the body's first way only."""

    body: "Node"
    position: int


Node = Chars | Look | Sequence | Alternation | Repeat | Atomic


def nullable(node: Node) -> bool:
    """Return whether the node can match the empty string anywhere."""
    match node:
        case Chars() | Look():
            return isinstance(node, Look)
        case Sequence(parts):
            return all(nullable(part) for part in parts)
        case Alternation(branches):
            return any(nullable(branch) for branch in branches)
        case Repeat() | Atomic():
            return (isinstance(node, Repeat) and node.least == 0) or nullable(node.body)
