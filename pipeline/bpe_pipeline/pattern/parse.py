"""Pattern text -> syntax tree, for the subset that becomes an automaton.

A tree means exactly what the `regex` package means by the text (its version 0, or 1 after a leading `(?V1)`), with `$`
as the very end of the document; anything outside the subset raises `Refusal` with the position. This is no validator:
text that `regex` itself rejects is refused here with any reason. The parser also notes what tokenizers' and tiktoken's
engines may read differently (`first_difference`); `translate` writes those parts in another way.

The subset: alternation; groups, capturing or not, with the flags i and s; characters, escapes, classes, `.`; after
`(?V1)` classes in classes, intersections `&&` and differences `--`; `\\p{..}` of general categories, Han, White_Space
and Word; `\\s \\d \\w` and their complements; greedy, lazy and possessive quantifiers, counted ones too; atomic groups;
look-ahead, though not inside of another; `$`, `\\Z`, `\\z`.
"""

import re
from typing import NamedTuple

from bpe_pipeline.pattern.classes import ANY, CODE_POINTS, CharSet, Refusal, folded, intersection, property_set, union

MAX_COUNT = 1000  # the largest number in a counted quantifier

SIMPLE_ESCAPES = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "a": "\a"}
CLASS_ESCAPES = {"s": "White_Space", "d": "Nd", "w": "Word"}
QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
COUNTED = re.compile(r"\{(?!,?\})([0-9]*)(,?)([0-9]*)\}")
HEX = re.compile("x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}")
PROPERTY = re.compile(r"\{(\^?)([^}]*)\}")
GROUP = re.compile(r"\((?!\?)|\(\?(?:[=!>]|P?<(?P<name>[^>]+)>|(?P<on>[is]*)(?:-(?P<off>[is]*))?:)")
FLAGS_OF_ALL = re.compile(r"\(\?((?:[is]|V1)+)\)")
SET_OPERATORS = ("&&", "--")  # under V1

# What is the same in Oniguruma (tokenizers), fancy-regex (tiktoken) and `regex`.
SAME_ESCAPES = "tnrfvdDsSpPxu"
SAME_PROPERTIES = re.compile(r"[CLMNPSZ][a-z]?|Han")
SAME_GROUPS = ("(", "(?:", "(?=", "(?!", "(?>")
SAME_CASELESS = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i:[sdmt]|ll|ve|re)")  # no engine folds these to several characters


class Look(NamedTuple):
    """The empty string, if the next character is in the set, or if the document ends and `end` is true."""

    chars: CharSet
    end: bool


class Ahead(NamedTuple):
    """The empty string, if the body matches from here on, or (`negative`) if it does not."""

    body: "Node"
    negative: bool


class Sequence(NamedTuple):
    """The parts one after the other; without parts, the empty string."""

    parts: tuple["Node", ...]


class Alternation(NamedTuple):
    """The first of the branches that leads to a match."""

    branches: tuple["Node", ...]


class Repeat(NamedTuple):
    """The body from `least` to `most` (None: without limit) times, as often as possible or (`lazy`) as rarely."""

    body: "Node"
    least: int
    most: int | None
    lazy: bool


class Atomic(NamedTuple):
    """Matches its body in the body's first way only."""

    body: "Node"
    position: int


Node = CharSet | Look | Ahead | Sequence | Alternation | Repeat | Atomic  # a set means one character of it


def parse(pattern: str) -> Node:
    """Return the tree of a pattern; raise `Refusal` outside the subset."""
    return _Parser(pattern).whole()


def first_difference(pattern: str) -> str | None:
    """Return what engines may read differently in a pattern, with its position; None if they read it alike."""
    parser = _Parser(pattern)
    try:
        parser.whole()
    except Refusal as refusal:
        parser.differs(refusal.position, refusal.reason)
    return next((f"{reason} at character {position}" for position, reason in sorted(parser.differences)), None)


def _nullable(node: Node) -> bool:
    """Return whether the node can match the empty string anywhere."""
    match node:
        case Sequence(parts):
            return all(map(_nullable, parts))
        case Alternation(branches):
            return any(map(_nullable, branches))
        case Repeat(body, least):
            return least == 0 or _nullable(body)
        case Atomic(body):
            return _nullable(body)
    return isinstance(node, Look | Ahead)


def _looks_ahead(node: Node) -> bool:
    match node:
        case Sequence(parts) | Alternation(parts):
            return any(map(_looks_ahead, parts))
        case Repeat(body) | Atomic(body):
            return _looks_ahead(body)
    return isinstance(node, Ahead)


def _one(character: str) -> CharSet:
    return CharSet(((ord(character), ord(character)),))


class _Parser:
    """Recursive descent over one pattern; `at` is the position of the next character."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags: frozenset[str] = frozenset()
        self.differences: list[tuple[int, str]] = []  # position, reason

    def differs(self, position: int, reason: str) -> None:
        """Note something that engines may read differently."""
        self.differences.append((position, reason))

    def whole(self) -> Node:
        if match := FLAGS_OF_ALL.match(self.pattern):
            self.flags = frozenset(re.findall("V1|.", match[1]))
            self.at = match.end()
            self.differs(0, "a group with flags or a name")
            self.refuse_full_folding(0)
        node = self.alternation()
        if self.at < len(self.pattern):
            raise Refusal("a parenthesis closes nothing", self.at)
        return node

    def peek(self, size: int = 1) -> str:
        return self.pattern[self.at : self.at + size]

    def take(self, text: str) -> bool:
        taken = self.pattern.startswith(text, self.at)
        self.at += len(text) * taken
        return taken

    def alternation(self) -> Node:
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else Alternation(tuple(branches))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.quantified())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def quantified(self) -> Node:
        start = self.at
        node = self.atom()
        counts_at = self.at
        counts = self.quantifier()
        if counts is None:
            return node
        if isinstance(node, Look | Ahead):
            raise Refusal("a quantifier on a look-ahead", start)
        least, most = counts
        counted = self.pattern[self.at - 1] == "}"
        possessive = self.take("+")
        lazy = not possessive and self.take("?")
        again = self.at
        if counted and possessive:
            self.differs(counts_at, "a possessive counted quantifier")
        elif lazy and counted and least == most:
            self.differs(counts_at, "a lazy exact count")
        if self.quantifier() is not None:
            raise Refusal("a quantifier on a quantifier", again)
        if most != 1 and _nullable(node):
            raise Refusal("a repeated part that can match the empty string", start)
        repeat = Repeat(node, least, most, lazy)
        return Atomic(repeat, start) if possessive else repeat

    def quantifier(self) -> tuple[int, int | None] | None:
        if self.peek() in QUANTIFIERS:
            self.at += 1
            return QUANTIFIERS[self.pattern[self.at - 1]]
        if self.peek() != "{":
            return None
        match = COUNTED.match(self.pattern, self.at)
        if match is None:
            raise Refusal("a brace that is not a counted quantifier such as {1,3}", self.at)
        least, comma, most = match.groups()
        if not least:
            self.differs(self.at, "a counted quantifier that is not {n}, {n,} or {n,m}")
        low = int(least or 0)
        high = low if not comma else int(most) if most else None
        if max(low, high or 0) > MAX_COUNT or (high is not None and high < low) or high == 0:
            raise Refusal(f"a counted quantifier outside 1..{MAX_COUNT}", self.at)
        self.at = match.end()
        return low, high

    def atom(self) -> Node:
        start, character = self.at, self.peek()
        if character == "(":
            return self.group()
        if character == "[":
            return self.char_class()
        if character in "^*+?{":
            raise Refusal(f"{character!r} here", start)
        if character == "$" or self.peek(2) in (r"\Z", r"\z"):
            self.differs(start, "the anchor $" if character == "$" else f"the escape {self.peek(2)}")
            self.at += 1 if character == "$" else 2
            return Look(CharSet(), end=True)
        if character == "\\":
            return self.fold(self.escape(), start)
        self.at += 1
        if character == ".":
            return ANY if "s" in self.flags else _one("\n").complement()
        return self.fold(_one(character), start)

    def group(self) -> Node:
        start, flags = self.at, self.flags
        match = GROUP.match(self.pattern, start)
        if match is None or not (match["name"] or "name").isidentifier():  # such as a look-behind
            raise Refusal("a group of this kind", start)
        if match[0] not in SAME_GROUPS and not self.pattern.startswith(SAME_CASELESS, start):
            self.differs(start, "a group with flags or a name")
        self.at = match.end()
        self.flags = flags.union(match["on"] or "").difference(match["off"] or "")
        if not self.pattern.startswith(SAME_CASELESS, start):
            self.refuse_full_folding(start)
        body = self.alternation()
        if not self.take(")"):
            raise Refusal("a group that is not closed", start)
        self.flags = flags
        if match[0] in ("(?=", "(?!"):
            return self.look_ahead(body, start, negative=match[0] == "(?!")
        return Atomic(body, start) if match[0] == "(?>" else body

    def look_ahead(self, body: Node, start: int, *, negative: bool) -> Look | Ahead:
        sets: list[CharSet] = []
        end = False
        for branch in body.branches if isinstance(body, Alternation) else (body,):
            if isinstance(branch, CharSet):
                sets.append(branch)
            elif branch == Look(CharSet(), end=True):
                end = True
            elif _looks_ahead(body):
                raise Refusal("a look-ahead inside of a look-ahead", start)
            else:
                return Ahead(body, negative)
        return Look(union(sets).complement(), not end) if negative else Look(union(sets), end)

    def escape(self) -> CharSet:
        """Read an escape, inside or outside of a class."""
        start = self.at
        self.at += 1
        letter = self.peek()
        if letter not in SAME_ESCAPES and letter.isalnum():
            self.differs(start, f"the escape \\{letter}")
        if match := HEX.match(self.pattern, self.at):
            self.at = match.end()
            code = int(match[0][1:], 16)
            if letter == "x" and code >= 0x80:
                self.differs(start, "an escaped byte beyond ASCII")
            if code < CODE_POINTS:
                return CharSet(((code, code),))
        self.at += 1
        if letter and letter in "pP":
            return self.unicode_property(start, negated=letter == "P")
        if letter.lower() in CLASS_ESCAPES:
            return CharSet((CLASS_ESCAPES[letter.lower()],), letter.isupper())
        character = SIMPLE_ESCAPES.get(letter, letter)
        if character.isascii() and character and not character.isalnum():
            return _one(character)
        raise Refusal(f"the escape \\{letter}", start)

    def unicode_property(self, start: int, *, negated: bool) -> CharSet:
        match = PROPERTY.match(self.pattern, self.at)
        if match is None:
            raise Refusal("a property that is not written \\p{..}", start)
        self.at = match.end()
        name = match[2]
        if not SAME_PROPERTIES.fullmatch(name):
            self.differs(start, f"the property {name}")
        try:
            chars = property_set(name)
        except KeyError:
            raise Refusal(f"the property {name}, of which there is no table", start) from None
        return chars.complement() if negated != bool(match[1]) else chars

    def refuse_full_folding(self, position: int) -> None:
        if self.flags >= {"V1", "i"}:
            raise Refusal("a group without regard to case after (?V1), where one character folds to several", position)

    def fold(self, chars: CharSet, position: int) -> CharSet:
        return folded(chars, position) if "i" in self.flags else chars

    def char_class(self) -> CharSet:
        start = self.at
        self.at += 1
        negated = self.take("^")
        if self.peek() == "]":
            self.differs(start, "an empty class")
        sets = self.class_items(start)
        operators = set()
        while self.peek() != "]":  # an operator
            operators.add(operator := self.peek(2))
            self.at += 2
            operand = union(self.class_items(start))
            sets = [intersection([union(sets), operand if operator == "&&" else operand.complement()])]
        if len(operators) > 1:
            raise Refusal("a class with two kinds of operators", start)
        if "--" in operators:
            self.differs(start, "a difference of classes")
        self.at += 1
        if negated and any(chars.complement() in sets for chars in sets):
            raise Refusal("a negated class of a set and its complement, which regex reads as any character", start)
        return union(sets).complement() if negated else union(sets)

    def class_items(self, start: int) -> list[CharSet]:
        """Read what stands in a class up to its end or an operator."""
        sets: list[CharSet] = []
        while not sets or not (self.peek() == "]" or self.at_operator()):
            position = self.at
            chars = self.class_item(start)
            if self.pattern[position] == "-" and sets and self.peek() != "]":
                self.differs(start, "a '-' inside a class")
            first = chars.single()
            if first is not None and self.peek() == "-" and self.peek(2) not in ("-]", "-") and not self.at_operator():
                self.at += 1
                if self.peek() == "-":
                    self.differs(start, "a set inside a class")
                last = self.class_item(start).single()
                if last is None or last < first:
                    raise Refusal("a range that does not run from a character to a later one", position)
                chars = CharSet(((first, last),))
            sets.append(self.fold(chars, position))
        return sets

    def at_operator(self) -> bool:
        return "V1" in self.flags and self.peek(2) in SET_OPERATORS

    def class_item(self, start: int) -> CharSet:
        character = self.peek()
        if not character:
            raise Refusal("a class that is not closed", start)
        if character == "[" and "V1" in self.flags and self.peek(2) != "[:":
            return self.char_class()
        if character == "[" or self.peek(2) in ("&&", "||", "--", "~~"):
            meant = "a backslash before a character that is meant, or (?V1) before the whole pattern"
            raise Refusal(f"a set inside a class (write {meant})", self.at)
        if character == "\\":
            return self.escape()
        self.at += 1
        return _one(character)
