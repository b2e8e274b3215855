"""Pattern text -> syntax tree, for the subset that becomes an automaton.

A tree means exactly what the `regex` package (its version 0 behaviour) means by the text, with `$` as the very end of
the document; anything outside the subset raises `Refusal` with the position. This is no validator: text that `regex`
itself rejects is refused here with any reason. The parser also notes what tokenizers' and tiktoken's engines may read
differently (`first_difference`); `translate` writes those parts in another way.

The subset: alternation; groups, capturing or not, with the flags i and s; characters, escapes, classes, `.`;
`\\p{..}` of general categories, White_Space and Word; `\\s \\d \\w` and their complements; greedy, lazy and possessive
quantifiers, counted ones too; atomic groups; look-ahead at one character, `(?=x)` and `(?!x)`; `$`, `\\Z`, `\\z`.
"""

import re

from pipeline.pattern.classes import ANY, CODE_POINTS, LINE_FEED, CharSet, Item, folded, property_item, range_item
from pipeline.pattern.tree import Alternation, Atomic, Chars, Look, Node, Refusal, Repeat, Sequence, nullable

MAX_COUNT = 1000  # the largest number in a counted quantifier

SIMPLE_ESCAPES = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7}
HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
CLASS_ESCAPES = {"s": "White_Space", "d": "Nd", "w": "Word"}
END_ESCAPES = ("Z", "z")
HEX_DIGITS = re.compile("[0-9a-fA-F]+")
GROUP_NAME = re.compile("P?<([^>]*)>")

# What is the same in Oniguruma (tokenizers), fancy-regex (tiktoken) and `regex`.
SAME_ESCAPES = "tnrfvdDsS"
SAME_PROPERTIES = re.compile(r"[CLMNPSZ][a-z]?")
SAME_CASELESS = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i:[sdmt]|ll|ve|re)")  # no engine folds these to several characters


def parse(pattern: str) -> Node:
    """Return the tree of a pattern; raise `Refusal` outside the subset."""
    return _Parser(pattern).whole()


def first_difference(pattern: str) -> str | None:
    """Return what engines may read differently in a pattern, with its position; None if they read it alike.

    A file from elsewhere is therefore accepted or refused, but never read approximately.
    """
    parser = _Parser(pattern)
    try:
        parser.whole()
    except Refusal as refusal:
        parser.differences.append((refusal.position, refusal.reason))
    return next((f"{reason} at character {position}" for position, reason in sorted(parser.differences)), None)


class _Parser:
    """Recursive descent over one pattern; `at` is the position of the next character."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.ignore_case = False
        self.dot_all = False
        self.differences: list[tuple[int, str]] = []  # position, reason

    def differs(self, position: int, reason: str) -> None:
        """Note something that engines may read differently."""
        self.differences.append((position, reason))

    def whole(self) -> Node:
        if self.pattern.startswith("(?") and (end := self.pattern.find(")")) > 0:
            flags = self.pattern[2:end]
            if flags and set(flags) <= set("is"):
                self.ignore_case, self.dot_all = "i" in flags, "s" in flags
                self.at = end + 1
                self.differs(0, "a group with flags or a name")
        node = self.alternation()
        if self.at < len(self.pattern):
            raise Refusal("a parenthesis closes nothing", self.at)
        return node

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

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
        if isinstance(node, Look):
            raise Refusal("a quantifier on a look-ahead", start)
        least, most = counts
        counted = self.pattern[self.at - 1] == "}"
        mode = "possessive" if self.take("+") else "lazy" if self.take("?") else "greedy"
        again = self.at
        if counted and mode == "possessive":
            self.differs(counts_at, "a possessive counted quantifier")
        elif counted and mode == "lazy" and least == most:
            self.differs(counts_at, "a lazy exact count")
        if self.quantifier() is not None:
            raise Refusal("a quantifier on a quantifier", again)
        if most != 1 and nullable(node):
            raise Refusal("a repeated part that can match the empty string", start)
        return Repeat(node, least, most, mode, start)

    def quantifier(self) -> tuple[int, int | None] | None:
        for text, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(text):
                return counts
        if self.peek() != "{":
            return None
        end = self.pattern.find("}", self.at)
        least, comma, most = self.pattern[self.at + 1 : max(end, self.at)].partition(",")
        plain = (least + most).isascii() and (least + most).isdigit()
        if not plain or (not comma and not least):
            raise Refusal("a brace that is not a counted quantifier such as {1,3}", self.at)
        if not least:
            self.differs(self.at, "a counted quantifier that is not {n}, {n,} or {n,m}")
        low = int(least or 0)
        high = low if not comma else int(most) if most else None
        if max(low, high or 0) > MAX_COUNT or (high is not None and high < low) or high == 0:
            raise Refusal(f"a counted quantifier outside 1..{MAX_COUNT}", self.at)
        self.at = end + 1
        return low, high

    def atom(self) -> Node:
        start = self.at
        character = self.peek()
        if character == "(":
            return self.group()
        if character == "[":
            return Chars(self.char_class())
        if character == "\\":
            if self.pattern[self.at + 1 : self.at + 2] in END_ESCAPES:
                self.differs(start, f"the escape {self.pattern[start : start + 2]}")
                self.at += 2
                return Look(CharSet(()), end=True)
            return Chars(CharSet((self.fold(self.escape(), start),)))
        if character in "^*+?{":
            raise Refusal(f"{character!r} here", start)
        self.at += 1
        if character == "$":
            self.differs(start, "the anchor $")
            return Look(CharSet(()), end=True)
        if character == ".":
            return Chars(ANY if self.dot_all else LINE_FEED.complement())
        return Chars(CharSet((self.fold(range_item(ord(character), ord(character)), start),)))

    def group(self) -> Node:
        start = self.at
        self.at += 1
        flags = self.ignore_case, self.dot_all
        if not self.take("?"):
            return self.closed(start, flags)
        for kind in "=!":
            if self.take(kind):
                return self.look_ahead(start, negative=kind == "!")
        if self.take(">"):
            return Atomic(self.closed(start, flags), start)
        if self.peek() != ":" and not self.pattern.startswith(SAME_CASELESS, start):
            self.differs(start, "a group with flags or a name")
        if self.named():
            return self.closed(start, flags)
        value = True
        while not self.take(":"):
            letter = self.peek()
            if letter == "i":
                self.ignore_case = value
            elif letter == "s":
                self.dot_all = value
            elif letter == "-" and value:
                value = False
            else:
                raise Refusal("a group of this kind", start)
            self.at += 1
        return self.closed(start, flags)

    def named(self) -> bool:
        found = GROUP_NAME.match(self.pattern, self.at)
        if found is None or not found[1].isidentifier():  # it may be a look-behind
            return False
        self.at = found.end()
        return True

    def closed(self, start: int, flags: tuple[bool, bool]) -> Node:
        node = self.alternation()
        if not self.take(")"):
            raise Refusal("a group that is not closed", start)
        self.ignore_case, self.dot_all = flags
        return node

    def look_ahead(self, start: int, *, negative: bool) -> Look:
        body = self.closed(start, (self.ignore_case, self.dot_all))
        chars: list[CharSet] = []
        end = False
        for branch in body.branches if isinstance(body, Alternation) else (body,):
            if isinstance(branch, Chars):
                chars.append(branch.chars)
            elif isinstance(branch, Look) and branch.end and not branch.chars.items:
                end = True
            else:
                raise Refusal("a look-ahead at more than one character", start)
        together = chars[0] if len(chars) == 1 else CharSet(tuple(chars))
        return Look(together.complement(), not end) if negative else Look(together, end)

    def escape(self) -> Item:
        """Read an escape, inside or outside of a class."""
        start = self.at
        letter = self.pattern[start + 1 : start + 2]
        self.at += 2
        if letter not in ("p", "P", "x", "u") and letter not in SAME_ESCAPES and letter.isalnum():
            self.differs(start, f"the escape \\{letter}")
        if letter in ("p", "P"):
            return self.unicode_property(start, negated=letter == "P")
        if letter.lower() in CLASS_ESCAPES and letter:
            return property_item(CLASS_ESCAPES[letter.lower()], negated=letter.isupper())
        if letter in HEX_ESCAPES:
            digits = self.pattern[self.at : self.at + HEX_ESCAPES[letter]]
            self.at += len(digits)
            code = (
                int(digits, 16) if HEX_DIGITS.fullmatch(digits) and len(digits) == HEX_ESCAPES[letter] else CODE_POINTS
            )
            if letter == "x" and code >= 0x80:
                self.differs(start, "an escaped byte beyond ASCII")
            if code < CODE_POINTS:
                return range_item(code, code)
        elif letter in SIMPLE_ESCAPES:
            return range_item(SIMPLE_ESCAPES[letter], SIMPLE_ESCAPES[letter])
        elif letter and letter.isascii() and not letter.isalnum():
            return range_item(ord(letter), ord(letter))
        raise Refusal(f"the escape \\{letter}", start)

    def unicode_property(self, start: int, *, negated: bool) -> Item:
        end = self.pattern.find("}", self.at)
        if self.peek() != "{" or end < 0:
            raise Refusal("a property that is not written \\p{..}", start)
        name = self.pattern[self.at + 1 : end]
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        self.at = end + 1
        if not SAME_PROPERTIES.fullmatch(name):
            self.differs(start, f"the property {name}")
        try:
            return property_item(name, negated=negated)
        except KeyError:
            raise Refusal(f"the property {name}, of which there is no table", start) from None

    def fold(self, item: Item, position: int) -> Item:
        if not self.ignore_case:
            return item
        try:
            return folded(item)
        except ValueError as error:
            raise Refusal(str(error), position) from None

    def char_class(self) -> CharSet:
        start = self.at
        self.at += 1
        negated = self.take("^")
        if self.peek() == "]":
            self.differs(start, "an empty class")
        items: list[Item] = []
        while not items or self.peek() != "]":
            position = self.at
            first = self.class_item(start)
            if self.pattern[position] == "-" and items and self.peek() != "]":
                self.differs(start, "a '-' inside a class")
            single = first.single()
            if single is not None and self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                if self.peek() == "-":
                    self.differs(start, "a set inside a class")
                last = self.class_item(start).single()
                if last is None or last < single:
                    raise Refusal("a range that does not run from a character to a later one", position)
                first = range_item(single, last)
            items.append(self.fold(first, position))
        self.at += 1
        return CharSet(tuple(items), negated)

    def class_item(self, start: int) -> Item:
        character = self.peek()
        if not character:
            raise Refusal("a class that is not closed", start)
        if character == "[" or self.pattern[self.at : self.at + 2] in ("&&", "||", "--", "~~"):
            raise Refusal("a set inside a class (write a backslash before a character that is meant)", self.at)
        if character == "\\":
            return self.escape()
        self.at += 1
        return range_item(ord(character), ord(character))
