"""Sets of characters, and the partition of all code points into the classes that a pattern can tell apart.

A set is a formula over ranges and Unicode properties, never a list of code points: `partition` evaluates each
set once per kind of character, so compiling a pattern takes milliseconds. The properties come from the
generated `_unicode.py`; their Unicode version is `UNICODE_VERSION`.
"""

import base64
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from pipeline.pattern import _unicode
from pipeline.pattern._unicode import CATEGORIES, UNICODE_VERSION

__all__ = ["ANY", "LINE_FEED", "UNICODE_VERSION", "CharSet", "Classes", "Item", "folded", "partition"]

CODE_POINTS = 0x110000
Run = tuple[int, int]  # first and last code point

LONG_NAMES = {
    "C": "Other",
    "Cc": "Control",
    "Cf": "Format",
    "Cn": "Unassigned",
    "Co": "Private_Use",
    "Cs": "Surrogate",
    "L": "Letter",
    "Ll": "Lowercase_Letter",
    "Lm": "Modifier_Letter",
    "Lo": "Other_Letter",
    "Lt": "Titlecase_Letter",
    "Lu": "Uppercase_Letter",
    "M": "Mark",
    "Mc": "Spacing_Mark",
    "Me": "Enclosing_Mark",
    "Mn": "Nonspacing_Mark",
    "N": "Number",
    "Nd": "Decimal_Number",
    "Nl": "Letter_Number",
    "No": "Other_Number",
    "P": "Punctuation",
    "Pc": "Connector_Punctuation",
    "Pd": "Dash_Punctuation",
    "Pe": "Close_Punctuation",
    "Pf": "Final_Punctuation",
    "Pi": "Initial_Punctuation",
    "Po": "Other_Punctuation",
    "Ps": "Open_Punctuation",
    "S": "Symbol",
    "Sc": "Currency_Symbol",
    "Sk": "Modifier_Symbol",
    "Sm": "Math_Symbol",
    "So": "Other_Symbol",
    "Z": "Separator",
    "Zl": "Line_Separator",
    "Zp": "Paragraph_Separator",
    "Zs": "Space_Separator",
    "White_Space": "space",
    "Word": "Word",
}
WORD_CATEGORIES = ("L", "M", "Nd", "Nl", "Pc")  # and WORD_EXTRA: what `\w` matches


@dataclass(frozen=True, slots=True)
class Item:
    """Code points in `ranges`, or of the property `name`, or (`negated`) all the others."""

    ranges: tuple[Run, ...] = ()
    name: str = ""
    negated: bool = False

    def contains(self, code: int, category: int) -> bool:
        """Whether the code point, which has that general category, belongs to it."""
        if self.name and _category_mask(self.name) >> category & 1:
            return not self.negated
        runs = _extra_runs(self.name) if self.name else self.ranges
        return any(first <= code <= last for first, last in runs) != self.negated

    def single(self) -> int | None:
        """The code point of an item that is one character, otherwise None."""
        if not self.name and not self.negated and len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]:
            return self.ranges[0][0]
        return None

    def bounds(self) -> Iterable[int]:
        """Where membership can change inside of one general category."""
        for first, last in _extra_runs(self.name) if self.name else self.ranges:
            yield first
            yield last + 1


@dataclass(frozen=True, slots=True)
class CharSet:
    """Code points in any of the items, or (`negated`) in none of them."""

    items: "tuple[Item | CharSet, ...]"
    negated: bool = False

    def contains(self, code: int, category: int) -> bool:
        """Whether the code point, which has that general category, belongs to it."""
        return any(item.contains(code, category) for item in self.items) != self.negated

    def bounds(self) -> Iterable[int]:
        """Where membership can change inside of one general category."""
        for item in self.items:
            yield from item.bounds()

    def complement(self) -> "CharSet":
        """All other code points."""
        return CharSet(self.items, not self.negated)


MAX_COMPARISONS = 30_000_000  # of finding a partition, some seconds

ANY = CharSet((), negated=True)
LINE_FEED = CharSet((Item(((10, 10),)),))


def union(sets: Sequence[CharSet]) -> CharSet:
    """Code points in any of the sets."""
    return sets[0] if len(sets) == 1 else CharSet(tuple(sets))


def range_item(first: int, last: int) -> Item:
    """The code points from `first` to `last`."""
    return Item(((first, last),))


def property_item(name: str, *, negated: bool) -> Item:
    """The item of a property by its short or long name, loosely spelled; KeyError if there is none."""
    return Item((), _property_names()[_loose(name)], negated)


def folded(item: Item) -> Item:
    """The item with every character that matches one of its own under simple case folding.

    ValueError for a property that folding would widen, since engines disagree there.
    """
    orbits = fold_orbits()
    if not item.name:
        codes = [code for first, last in item.ranges for code in _related(first, last)]
        extra = {other for code in codes for other in orbits[code] if not item.contains(other, category_of(other))}
        return Item(item.ranges + tuple((code, code) for code in sorted(extra)))
    if not _closed_under_folding(item.name):
        raise ValueError(f"the property {item.name} without regard to case")
    return item


@cache
def _closed_under_folding(name: str) -> bool:
    members = property_item(name, negated=False)
    return all(
        len({members.contains(code, category_of(code)) for code in orbit}) == 1 for orbit in set(fold_orbits().values())
    )


def _related(first: int, last: int) -> Iterable[int]:
    """The code points of a range that match others under simple case folding."""
    orbits = fold_orbits()
    if last - first < len(orbits):
        return [code for code in range(first, last + 1) if code in orbits]
    return [code for code in orbits if first <= code <= last]


@cache
def fold_orbits() -> dict[int, tuple[int, ...]]:
    """Each code point that matches others under simple case folding -> all of them, itself included."""
    numbers = _unpacked(_unicode.FOLD_ORBITS)
    orbits, at = {}, 0
    while at < len(numbers):
        orbit = tuple(numbers[at + 1 : at + 1 + numbers[at]])
        orbits.update(dict.fromkeys(orbit, orbit))
        at += 1 + numbers[at]
    return orbits


def category_of(code: int) -> int:
    """The index into CATEGORIES of a code point's general category."""
    starts, categories = category_runs()
    return categories[bisect_right(starts, code) - 1]


@dataclass(frozen=True, slots=True)
class Classes:
    """A partition of the code points: run k holds `starts[k]` up to `starts[k + 1]`, of class `ids[k]`.

    Classes are numbered by their first code point, so those of ASCII come first; `count` does not count the
    pseudo class `end`, the end of the document. `masks[i]` has the bit of each class that belongs to set i.
    """

    starts: "array[int]"
    ids: bytes
    count: int
    masks: tuple[int, ...]

    @property
    def end(self) -> int:
        """The pseudo class of the document's end."""
        return self.count


def partition(sets: Sequence[CharSet]) -> Classes | None:
    """The coarsest partition in which each set is a union of classes; None where finding it takes too long."""
    bounds = [bound for chars in sets for bound in chars.bounds()]
    cuts = sorted({bound for bound in bounds if bound < CODE_POINTS} | {CODE_POINTS})
    category_starts, categories = category_runs()
    if (len(cuts) + len(categories)) * (len(bounds) + len(sets)) > MAX_COMPARISONS:
        return None
    class_of_signature: dict[int, int] = {}
    starts = array("I")
    ids = bytearray()
    at, run = 0, 0
    for stop in cuts:
        class_of_category: dict[int, int] = {}  # between two cuts a category is one kind of character
        while at < stop:
            category = categories[run]
            found = class_of_category.get(category)
            if found is None:
                signature = sum(1 << index for index, chars in enumerate(sets) if chars.contains(at, category))
                found = class_of_signature.setdefault(signature, len(class_of_signature))
                class_of_category[category] = found
            if not ids or ids[-1] != found:
                starts.append(at)
                ids.append(min(found, 255))
            following = category_starts[run + 1] if run + 1 < len(category_starts) else CODE_POINTS
            at = min(following, stop)
            run += following <= stop
    masks = [0] * len(sets)
    for signature, found in class_of_signature.items():
        for index in range(len(sets)):
            masks[index] |= (signature >> index & 1) << found
    return Classes(starts, bytes(ids), len(class_of_signature), tuple(masks))


def _loose(name: str) -> str:
    return name.replace("_", "").replace(" ", "").replace("-", "").lower()


@cache
def _property_names() -> dict[str, str]:
    return {_loose(spelling): short for short, long in LONG_NAMES.items() for spelling in (short, long)}


@cache
def _category_mask(name: str) -> int:
    if name == "Word":
        return sum(_category_mask(part) for part in WORD_CATEGORIES)
    return sum(1 << index for index, category in enumerate(CATEGORIES) if category.startswith(name))


@cache
def _extra_runs(name: str) -> tuple[Run, ...]:
    table = {"White_Space": _unicode.WHITE_SPACE, "Word": _unicode.WORD_EXTRA}.get(name)
    if table is None:
        return ()
    bounds = _unpacked(table)
    return tuple(zip(bounds[::2], bounds[1::2], strict=True))


@cache
def category_runs() -> tuple["array[int]", bytes]:
    """First code point and category (an index into CATEGORIES) of each stretch of one category."""
    packed = _unpacked(_unicode.CATEGORY_RUNS)
    return array("I", [number >> 8 for number in packed]), bytes(number & 255 for number in packed)


def _unpacked(table: bytes) -> "array[int]":
    numbers = array("I", base64.b64decode(table))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
