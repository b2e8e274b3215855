"""Sets of characters, and the partition of all code points into the classes that a pattern distinguishes.

A set is a formula over ranges and Unicode properties, never a list of code points: `partition` evaluates each set once
per kind of character, so compiling a pattern takes milliseconds. The properties come from the generated `_unicode.py`;
their Unicode version is `UNICODE_VERSION`.
"""

import re
import string
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from pipeline.pattern import _unicode

UNICODE_VERSION = _unicode.UNICODE_VERSION
CATEGORIES = _unicode.CATEGORIES.split()
CODE_POINTS = 0x110000
MAX_COMPARISONS = 30_000_000  # of finding a partition, some seconds
Run = tuple[int, int]  # first and last code point

_NAMES = """
    C:Other Cc:Control Cf:Format Cn:Unassigned Co:Private_Use Cs:Surrogate L:Letter Ll:Lowercase_Letter
    Lm:Modifier_Letter Lo:Other_Letter Lt:Titlecase_Letter Lu:Uppercase_Letter M:Mark Mc:Spacing_Mark Me:Enclosing_Mark
    Mn:Nonspacing_Mark N:Number Nd:Decimal_Number Nl:Letter_Number No:Other_Number P:Punctuation
    Pc:Connector_Punctuation Pd:Dash_Punctuation Pe:Close_Punctuation Pf:Final_Punctuation Pi:Initial_Punctuation
    Po:Other_Punctuation Ps:Open_Punctuation S:Symbol Sc:Currency_Symbol Sk:Modifier_Symbol Sm:Math_Symbol
    So:Other_Symbol Z:Separator Zl:Line_Separator Zp:Paragraph_Separator Zs:Space_Separator White_Space:space Word:Word
"""
LONG_NAMES: dict[str, str] = dict(names.split(":") for names in _NAMES.split())
WORD_CATEGORIES = ("L", "M", "Nd", "Nl", "Pc")  # and WORD_EXTRA: what `\w` matches


@dataclass(frozen=True, slots=True)
class Item:
    """Code points in `ranges`, or of the property `name`, or (`negated`) all the others."""

    ranges: tuple[Run, ...] = ()
    name: str = ""
    negated: bool = False

    def contains(self, code: int, category: int) -> bool:
        """Return whether the code point, which has that general category, belongs to it."""
        if self.name and _category_mask(self.name) >> category & 1:
            return not self.negated
        return any(first <= code <= last for first, last in self._runs()) != self.negated

    def single(self) -> int | None:
        """Return the code point of an item that is one character, otherwise None."""
        if not self.name and not self.negated and len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]:
            return self.ranges[0][0]
        return None

    def bounds(self) -> Iterable[int]:
        """Return where membership can change within one general category."""
        return (bound for first, last in self._runs() for bound in (first, last + 1))

    def _runs(self) -> tuple[Run, ...]:
        return _extra_runs(self.name) if self.name else self.ranges


@dataclass(frozen=True, slots=True)
class CharSet:
    """Code points in any of the items, or (`negated`) in none of them."""

    items: "tuple[Item | CharSet, ...]"
    negated: bool = False

    def contains(self, code: int, category: int) -> bool:
        """Return whether the code point, which has that general category, belongs to it."""
        return any(item.contains(code, category) for item in self.items) != self.negated

    def bounds(self) -> Iterable[int]:
        """Return where membership can change within one general category."""
        return (bound for item in self.items for bound in item.bounds())

    def complement(self) -> "CharSet":
        """Return all other code points."""
        return CharSet(self.items, not self.negated)


def range_item(first: int, last: int) -> Item:
    """Return the code points from `first` to `last`."""
    return Item(((first, last),))


def property_item(name: str, *, negated: bool) -> Item:
    """Return the item of a property by its short or long name, loosely spelled; KeyError if there is none."""
    return Item((), _property_names()[_loose(name)], negated)


ANY = CharSet((), negated=True)
LINE_FEED = CharSet((range_item(10, 10),))


def folded(item: Item) -> Item:
    """Add every character that matches one of the item's own under simple case folding.

    Raises ValueError for a property that folding would widen, since engines disagree there.
    """
    orbits = fold_orbits()
    if item.name:
        if not _closed_under_folding(item.name):
            raise ValueError(f"the property {item.name} without regard to case")
        return item
    codes: set[int] = set()
    for first, last in item.ranges:
        among = range(first, last + 1) if last - first < len(orbits) else orbits
        codes.update(code for code in among if first <= code <= last and code in orbits)
    extra = {other for code in codes for other in orbits[code] if not item.contains(other, category_of(other))}
    return Item(item.ranges + tuple((code, code) for code in sorted(extra)))


@cache
def _closed_under_folding(name: str) -> bool:
    members = property_item(name, negated=False)
    return all(
        len({members.contains(code, category_of(code)) for code in orbit}) == 1 for orbit in set(fold_orbits().values())
    )


@cache
def fold_orbits() -> dict[int, tuple[int, ...]]:
    """Map each code point that matches others under simple case folding to all of them, itself included."""
    orbits = {}
    for stretch in _unicode.FOLD_ORBITS.split():
        numbers, _, repeated = stretch.partition("*")
        first, *distances = (int(number, 16) for number in numbers.split("+"))
        count, step = (int(number, 16) for number in (repeated or "1/1").split("/"))
        for start in range(first, first + count * step, step):
            orbit = tuple(accumulate(distances, initial=start))
            orbits.update(dict.fromkeys(orbit, orbit))
    return orbits


def category_of(code: int) -> int:
    """Return the index into CATEGORIES of a code point's general category."""
    starts, categories = category_runs()
    return categories[bisect_right(starts, code) - 1]


@dataclass(frozen=True, slots=True)
class Classes:
    """A partition of the code points: run k holds `starts[k]` up to `starts[k + 1]`, of class `ids[k]`.

    Classes are numbered by their first code point, so those of ASCII come first. `masks[i]` has the bit of each class
    that belongs to set i.
    """

    starts: "array[int]"
    ids: bytes
    count: int
    masks: tuple[int, ...]


def partition(sets: Sequence[CharSet]) -> Classes | None:
    """Find the coarsest partition in which each set is a union of classes; None where finding it takes too long."""
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
    masks = tuple(
        sum((signature >> index & 1) << found for signature, found in class_of_signature.items())
        for index in range(len(sets))
    )
    return Classes(starts, bytes(ids), len(class_of_signature), masks)


def _loose(name: str) -> str:
    return name.replace("_", "").replace(" ", "").replace("-", "").lower()


@cache
def _property_names() -> dict[str, str]:
    return {_loose(spelling): short for short, long in LONG_NAMES.items() for spelling in (short, long)}


@cache
def _category_mask(name: str) -> int:
    prefixes = WORD_CATEGORIES if name == "Word" else (name,)
    return sum(1 << index for index, category in enumerate(CATEGORIES) if category.startswith(prefixes))


@cache
def _extra_runs(name: str) -> tuple[Run, ...]:
    """Return what belongs to a property by code point, not by general category."""
    runs = {"White_Space": _unicode.WHITE_SPACE, "Word": _unicode.WORD_EXTRA}.get(name, "").split()
    return tuple((int(first, 16), int(last, 16)) for first, last in (run.split("-") for run in runs))


@cache
def category_runs() -> tuple["array[int]", bytes]:
    """Return the first code point and the category (an index into CATEGORIES) of each run of one category."""
    found = re.findall(r"(\D)(\d*)", _unicode.CATEGORY_RUNS)
    starts = accumulate((int(size or 1) for _, size in found[:-1]), initial=0)
    return array("I", starts), bytes(string.ascii_letters.index(letter) for letter, _ in found)
