"""Sets of characters, and the partition of all code points into the classes that a pattern distinguishes.

A set is a formula over ranges and Unicode properties, never a list of code points: `partition` evaluates each set once
per kind of character, so compiling a pattern takes milliseconds. The properties come from `unicode.json`, which
`tests/support/make_unicode.py` generates from the engines that run an exported tokenizer.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CODE_POINTS = 0x110000
MAX_CLASSES = 255  # together with the end of the document
MAX_COMPARISONS = 30_000_000  # of finding a partition, some seconds
Run = tuple[int, int]  # first and last code point

_TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("unicode.json").read_bytes())
UNICODE_VERSION: str = _TABLES["version"]
CATEGORY_STARTS: list[int] = _TABLES["category_starts"]  # the first code point of each run of one general category
CATEGORY_NAMES: list[str] = _TABLES["category_names"]  # of each run
NFC_ACTIVE: list[Run] = _TABLES["nfc_active"]  # what NFC may change, move, or join with what is before
NFC_UNKNOWN: list[Run] = _TABLES["nfc_unknown"]  # what only newer versions of NFC change

_NAMES = """
    C:Other Cc:Control Cf:Format Cn:Unassigned Co:Private_Use Cs:Surrogate L:Letter Ll:Lowercase_Letter
    Lm:Modifier_Letter Lo:Other_Letter Lt:Titlecase_Letter Lu:Uppercase_Letter M:Mark Mc:Spacing_Mark Me:Enclosing_Mark
    Mn:Nonspacing_Mark N:Number Nd:Decimal_Number Nl:Letter_Number No:Other_Number P:Punctuation
    Pc:Connector_Punctuation Pd:Dash_Punctuation Pe:Close_Punctuation Pf:Final_Punctuation Pi:Initial_Punctuation
    Po:Other_Punctuation Ps:Open_Punctuation S:Symbol Sc:Currency_Symbol Sk:Modifier_Symbol Sm:Math_Symbol
    So:Other_Symbol Z:Separator Zl:Line_Separator Zp:Paragraph_Separator Zs:Space_Separator White_Space:space Word:Word
    Han:Han
"""
LONG_NAMES: dict[str, str] = dict(names.split(":") for names in _NAMES.split())
# A property is general categories and runs; each name that is not here is the start of its categories' names.
_CATEGORIES_OF: dict[str, tuple[str, ...]] = {"White_Space": (), "Han": (), "Word": ("L", "M", "Nd", "Nl", "Pc")}
_RUNS_OF: dict[str, list[Run]] = {
    "White_Space": _TABLES["white_space"],
    "Word": _TABLES["word_extra"],
    "Han": _TABLES["han"],
}


class Refusal(Exception):  # noqa: N818 - not an error: the pattern is fine, it only runs elsewhere
    """The pattern is outside the subset: the reason, and the position in its text."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class CharSet:
    """Code points in any of the parts (runs, properties by their short names, sets), or (`negated`) in none of them."""

    parts: "tuple[Run | str | CharSet, ...]" = ()
    negated: bool = False

    def contains(self, code: int, category: str) -> bool:
        """Return whether the code point, which has that general category, belongs to it."""
        for part in self.parts:
            if isinstance(part, CharSet):
                inside = part.contains(code, category)
            else:
                inside = isinstance(part, str) and category.startswith(_CATEGORIES_OF.get(part, part))
                inside = inside or any(first <= code <= last for first, last in _runs(part))
            if inside:
                return not self.negated
        return self.negated

    def bounds(self) -> Iterator[int]:
        """Yield where membership can change within one general category."""
        for part in self.parts:
            if isinstance(part, CharSet):
                yield from part.bounds()
            else:
                yield from (bound for first, last in _runs(part) for bound in (first, last + 1))

    def single(self) -> int | None:
        """Return the code point of a set of one run of one character, otherwise None."""
        match self:
            case CharSet(((int(first), int(last)),), False) if first == last:
                return first
        return None

    def complement(self) -> "CharSet":
        """Return all other code points."""
        return CharSet(self.parts, not self.negated)


ANY = CharSet(negated=True)


def _runs(part: Run | str) -> Sequence[Run]:
    return _RUNS_OF.get(part, ()) if isinstance(part, str) else (part,)


def union(sets: Sequence[CharSet]) -> CharSet:
    """Return what is in any of the sets."""
    if len(sets) == 1:
        return sets[0]
    return CharSet(tuple(part for chars in sets for part in ((chars,) if chars.negated else chars.parts)))


def intersection(sets: Sequence[CharSet]) -> CharSet:
    """Return what is in all of the sets."""
    return sets[0] if len(sets) == 1 else union([chars.complement() for chars in sets]).complement()


def property_set(name: str) -> CharSet:
    """Return the set of a property by its short or long name, loosely spelled; KeyError if there is none."""
    return CharSet((_property_names()[_loose(name)],))


def _loose(name: str) -> str:
    return name.replace("_", "").replace(" ", "").replace("-", "").lower()


@cache
def _property_names() -> dict[str, str]:
    return {_loose(spelling): short for short, long in LONG_NAMES.items() for spelling in (short, long)}


def category_of(code: int) -> str:
    """Return the general category of a code point."""
    return CATEGORY_NAMES[bisect_right(CATEGORY_STARTS, code) - 1]


def folded(chars: CharSet, position: int) -> CharSet:
    """Add what matches a character of the set under simple case folding; `Refusal` where engines disagree."""
    orbits = fold_orbits()
    matched: set[int] = set()
    for part in chars.parts:
        if isinstance(part, str) and not _closed_under_folding(part):
            raise Refusal(f"the property {part} without regard to case", position)
        if isinstance(part, tuple):
            among = range(part[0], part[1] + 1) if part[1] - part[0] < len(orbits) else orbits
            matched.update(*(orbits.get(code, ()) for code in among if part[0] <= code <= part[1]))
    added = sorted(code for code in matched if not chars.contains(code, category_of(code)))
    return CharSet((*chars.parts, *((code, code) for code in added)), chars.negated)


@cache
def fold_orbits() -> dict[int, tuple[int, ...]]:
    """Map each code point that matches others under simple case folding to all of them, itself included."""
    return {code: tuple(orbit) for orbit in _TABLES["fold_orbits"] for code in orbit}


@cache
def _closed_under_folding(name: str) -> bool:
    members = CharSet((name,))
    return all(
        len({members.contains(code, category_of(code)) for code in orbit}) == 1 for orbit in _TABLES["fold_orbits"]
    )


@dataclass(frozen=True, slots=True)
class Classes:
    """A partition of the code points: run k holds `starts[k]` up to `starts[k + 1]`, of class `ids[k]`.

    Classes are numbered by their first code point, so those of ASCII come first. `masks[i]` has the bit of each class
    that belongs to set i.
    """

    starts: list[int]
    ids: bytes
    count: int
    masks: tuple[int, ...]


def partition(sets: Sequence[CharSet]) -> Classes:
    """Find the coarsest partition in which each set is a union of classes; `Refusal` for too many, or too much work."""
    bounds = [bound for chars in sets for bound in chars.bounds()]
    cuts = {bound for bound in bounds if bound < CODE_POINTS}
    if (len(cuts) + len(CATEGORY_STARTS)) * (len(bounds) + len(sets)) > MAX_COMPARISONS:
        raise Refusal(f"the pattern distinguishes more than {MAX_CLASSES} classes of characters", 0)
    class_of_signature: dict[int, int] = {}
    class_of_category: dict[str, int] = {}  # between two cuts a category is one kind of character
    starts: list[int] = []
    ids = bytearray()
    for at in sorted(cuts.union(CATEGORY_STARTS)):
        if at in cuts:
            class_of_category.clear()
        category = category_of(at)
        if category not in class_of_category:
            signature = sum(1 << index for index, chars in enumerate(sets) if chars.contains(at, category))
            class_of_category[category] = class_of_signature.setdefault(signature, len(class_of_signature))
            if len(class_of_signature) >= MAX_CLASSES:
                raise Refusal(f"the pattern distinguishes more than {MAX_CLASSES} classes of characters", 0)
        number = class_of_category[category]
        if not ids or ids[-1] != number:
            starts.append(at)
            ids.append(number)
    masks = tuple(
        sum((signature >> index & 1) << number for signature, number in class_of_signature.items())
        for index in range(len(sets))
    )
    return Classes(starts, bytes(ids), len(class_of_signature), masks)
