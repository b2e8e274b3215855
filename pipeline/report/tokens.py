"""What a vocabulary holds: pure functions from its tokens to numbers and examples.

Scripts are told by the Unicode names of letters (unicodedata has no script property): the first word of `CYRILLIC SMALL
LETTER A`. Marks, digits and signs that many scripts share say nothing, unless a token has nothing else.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nsmallest
from itertools import accumulate

PART, SPACE, DIGITS, SIGNS, SEVERAL = (
    *("part of a character", "white space", "digits", "punctuation and symbols", "several scripts"),
)
_SHARED = "shared by scripts"
_NAMES = {"CJK": "Han", "IDEOGRAPHIC": "Han", "KANGXI": "Han", "COMBINING": _SHARED, "MODIFIER": _SHARED}
_NAMES |= dict.fromkeys(("FEMININE", "MASCULINE", "MICRO", "VARIATION", "SPACING", "MATHEMATICAL"), _SHARED)
_WIDE = {"FULLWIDTH", "HALFWIDTH"}
_PAIRS = {"OLD", "NEW", "OL", "TAI", "MEETEI", "SYLOTI", "CANADIAN", "LINEAR", "WARANG", "HANIFI"}
_TIMES = 8
_URL = re.compile(r"https?:|www\.|://|\.(?:com|org|net|html?|php)\b")
_REPEAT = re.compile(rf"(.{{1,4}}?)\1{{{_TIMES - 1},}}", re.DOTALL)
_EXAMPLES, _LONGEST, _SHOWN = 24, 20, 48


@dataclass(frozen=True)
class Shown:
    """A token for people: its text as `shown` writes it, cut where it is long, and how many bytes it has in all."""

    id: int
    text: str
    bytes: int


@dataclass(frozen=True)
class Found:
    """So many tokens of a kind, and the first or longest of them."""

    count: int
    examples: tuple[Shown, ...]


@dataclass(frozen=True)
class Variants:
    """Tokens that differ only by case or by a space in front. tokens: in all groups; beyond_one: what one of each
    group would save."""

    groups: int
    tokens: int
    beyond_one: int
    largest: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Vocabulary:
    """What a vocabulary holds. lengths: bytes -> tokens; scripts: the most frequent first. Special tokens are apart."""

    tokens: int
    bytes: int
    special_tokens: tuple[str, ...]
    lengths: dict[int, int]
    scripts: dict[str, int]
    longest: tuple[Shown, ...]
    variants: Variants
    partial: Found
    unreachable: Found
    urls: Found
    repeats: Found


def facts(tokens: Mapping[int, bytes], special_tokens: Sequence[str], unreachable: Sequence[int]) -> Vocabulary:
    """What ordinary tokens (id -> bytes) are like. unreachable: ids of those that the merges never make."""
    texts: dict[int, str] = {}
    partial = []
    for id_, token in tokens.items():
        try:
            texts[id_] = token.decode()
        except UnicodeDecodeError:
            partial.append(id_)
    scripts = Counter(map(script_of, texts.values()))
    scripts[PART] += len(partial)
    longest = nsmallest(_LONGEST, tokens, key=lambda id_: (-len(tokens[id_]), id_))
    return Vocabulary(
        tokens=len(tokens),
        bytes=sum(map(len, tokens.values())),
        special_tokens=tuple(special_tokens),
        lengths=dict(sorted(Counter(map(len, tokens.values())).items())),
        scripts={name: count for name, count in scripts.most_common() if count},
        longest=tuple(_shown(id_, tokens) for id_ in longest),
        variants=variants(texts.values()),
        partial=found([id_ for id_ in partial if len(tokens[id_]) > 1], tokens, len(partial)),
        unreachable=found(unreachable, tokens),
        urls=found(with_address(texts), tokens),
        repeats=found(with_repeat(texts), tokens),
    )


def found(ids: Sequence[int], tokens: Mapping[int, bytes], count: int | None = None) -> Found:
    """So many tokens, the first of them shown."""
    return Found(len(ids) if count is None else count, tuple(_shown(id_, tokens) for id_ in ids[:_EXAMPLES]))


def with_address(texts: Mapping[int, str]) -> list[int]:
    """Ids of the texts that look like parts of addresses of the web. All are searched as one, which is much faster."""
    ids, lowered = list(texts), [text.lower() for text in texts.values()]
    starts = list(accumulate((len(text) + 1 for text in lowered), initial=0))
    whole = "\0".join(lowered)
    found, at = [], 0
    while (match := _URL.search(whole, at)) is not None:
        index = bisect_right(starts, match.start()) - 1
        found.append(ids[index])
        at = starts[index + 1]
    return found


def with_repeat(texts: Mapping[int, str]) -> list[int]:
    """Ids of the texts in which a unit of up to four characters stands eight times in a row."""
    return [
        id_
        for id_, text in texts.items()
        if len(text) > _TIMES - 1 and len(text) - len(set(text)) >= _TIMES - 1 and _REPEAT.search(text)
    ]


def variants(texts: Iterable[str]) -> Variants:
    """Groups of texts that are the same but for case and one space in front; those of one text are none."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        word = text.removeprefix(" ").casefold()
        if word.strip():
            groups.setdefault(word, []).append(text)
    several = [group for group in groups.values() if len(group) > 1]
    several.sort(key=lambda group: (-len(group), -len(group[0])))
    tokens = sum(map(len, several))
    largest = tuple(tuple(shown(text.encode()) for text in group) for group in several[:_EXAMPLES])
    return Variants(len(several), tokens, tokens - len(several), largest)


def script_of(text: str) -> str:
    """The script of a text's letters, or what it is made of where it has none.

    >>> script_of(" привет")
    'Cyrillic'
    """
    if text.isascii():  # most are, and quick to tell
        if text.isspace():
            return SPACE
        return "Latin" if any(map(str.isalpha, text)) else DIGITS if any(map(str.isdigit, text)) else SIGNS
    scripts = {script_of_character(character) for character in text}
    letters = scripts - {_SHARED, SPACE, DIGITS, SIGNS}
    if len(letters) == 1:
        return letters.pop()
    if letters:
        return SEVERAL
    return next(kind for kind in (DIGITS, SIGNS, _SHARED, SPACE) if kind in scripts).replace(_SHARED, SIGNS)


@cache
def script_of_character(character: str) -> str:
    """The script of a letter or mark; what kind of sign anything else is."""
    if character.isspace():
        return SPACE
    category = unicodedata.category(character)
    if category[0] not in "LM":
        return DIGITS if category[0] == "N" else SIGNS
    words = unicodedata.name(character, "UNNAMED").replace("-", " ").split()
    if words[0] in _WIDE:
        words = words[1:]
    if words[0] in _NAMES:
        return _NAMES[words[0]]
    return " ".join(words[: 2 if words[0] in _PAIRS else 1]).title()


def shown(token: bytes, most: int = _SHOWN) -> str:
    """A token as people can read it: a space is ␣, what is invisible or no character is escaped, long ones are cut.

    >>> shown(b" the\\n")
    '␣the\\\\n'
    """
    text = token.decode(errors="surrogateescape")
    characters = [_visible(character) for character in text[:most]]
    if text and unicodedata.category(text[0])[0] == "M":
        characters.insert(0, "\N{DOTTED CIRCLE}")
    return "".join(characters) + ("…" if len(text) > most else "")


_ESCAPES = {" ": "␣", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@cache
def _visible(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if "\udc80" <= character <= "\udcff":  # a byte that is no character
        return f"\\x{ord(character) - 0xDC00:02x}"
    if unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"):
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character


def _shown(id_: int, tokens: Mapping[int, bytes]) -> Shown:
    return Shown(id_, shown(tokens[id_]), len(tokens[id_]))
