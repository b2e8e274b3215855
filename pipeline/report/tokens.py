"""What a vocabulary holds: pure functions from its tokens to numbers and examples.

The script of a letter is the first word of its Unicode name (`CYRILLIC SMALL LETTER A`): unicodedata has no script
property. Marks, digits and signs that many scripts share count only if a token has nothing else.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nsmallest

PARTIAL, SPACE, DIGITS, SIGNS, SEVERAL = (
    *("part of a character", "white space", "digits", "punctuation and symbols", "several scripts"),
)
_SHARED = "shared by scripts"
_NAMES = {"CJK": "Han", "IDEOGRAPHIC": "Han", "KANGXI": "Han", "COMBINING": _SHARED, "MODIFIER": _SHARED}
_NAMES |= dict.fromkeys(("FEMININE", "MASCULINE", "MICRO", "VARIATION", "SPACING", "MATHEMATICAL"), _SHARED)
_WIDTHS = {"FULLWIDTH", "HALFWIDTH"}
_FIRST_OF_TWO_WORDS = {"OLD", "NEW", "OL", "TAI", "MEETEI", "SYLOTI", "CANADIAN", "LINEAR", "WARANG", "HANIFI"}
_URL = re.compile(r"https?:|www\.|://|\.(?:com|org|net|html?|php)\b", re.IGNORECASE)
_TIMES = 8
_REPEAT = re.compile(rf"(.{{1,4}}?)\1{{{_TIMES - 1},}}", re.DOTALL)
_EXAMPLES, _LONGEST, _SHOWN_CHARACTERS = 24, 20, 48
_ESCAPES = {" ": "␣", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True)
class TokenExample:
    """A token for people: its readable, shortened text and its full length in bytes."""

    id: int
    text: str
    bytes: int


@dataclass(frozen=True)
class TokenGroup:
    """Tokens of one kind: their number, and the first or longest of them."""

    count: int
    examples: tuple[TokenExample, ...]


@dataclass(frozen=True)
class Variants:
    """Tokens that differ only by case or a leading space. beyond_one: tokens saved if each group kept one."""

    groups: int
    tokens: int
    beyond_one: int
    largest: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class VocabularyNumbers:
    """The tokens except special ones. lengths: bytes -> tokens; scripts: most frequent first."""

    tokens: int
    bytes: int
    special_tokens: tuple[str, ...]
    lengths: dict[int, int]
    scripts: dict[str, int]
    longest: tuple[TokenExample, ...]
    variants: Variants
    partial: TokenGroup
    unreachable: TokenGroup
    urls: TokenGroup
    repeats: TokenGroup


def vocabulary_numbers(
    tokens: Mapping[int, bytes], special_tokens: Sequence[str], unreachable: Sequence[int]
) -> VocabularyNumbers:
    """Describe ordinary tokens (id -> bytes). unreachable: ids that the merges never produce."""
    texts: dict[int, str] = {}
    partial = []
    for id_, token in tokens.items():
        try:
            texts[id_] = token.decode()
        except UnicodeDecodeError:
            partial.append(id_)
    scripts = Counter(map(script_of, texts.values()))
    scripts[PARTIAL] += len(partial)
    longest = nsmallest(_LONGEST, tokens, key=lambda id_: (-len(tokens[id_]), id_))
    return VocabularyNumbers(
        tokens=len(tokens),
        bytes=sum(map(len, tokens.values())),
        special_tokens=tuple(special_tokens),
        lengths=dict(sorted(Counter(map(len, tokens.values())).items())),
        scripts={name: count for name, count in scripts.most_common() if count},
        longest=token_group(longest, tokens).examples,
        variants=variants(texts.values()),
        partial=token_group([id_ for id_ in partial if len(tokens[id_]) > 1], tokens, len(partial)),
        unreachable=token_group(unreachable, tokens),
        urls=token_group(with_address(texts), tokens),
        repeats=token_group(with_repeat(texts), tokens),
    )


def token_group(ids: Sequence[int], tokens: Mapping[int, bytes], count: int | None = None) -> TokenGroup:
    """Make a group of `count` tokens (default: all ids) with the first ids as examples."""
    examples = tuple(TokenExample(id_, readable(tokens[id_]), len(tokens[id_])) for id_ in ids[:_EXAMPLES])
    return TokenGroup(len(ids) if count is None else count, examples)


def with_address(texts: Mapping[int, str]) -> list[int]:
    """List ids of texts that look like parts of web addresses."""
    return [id_ for id_, text in texts.items() if (":" in text or "." in text) and _URL.search(text)]


def with_repeat(texts: Mapping[int, str]) -> list[int]:
    """List ids of texts that repeat a unit of up to four characters eight times in a row."""
    # Such a text has at least seven characters more than different ones: most need no search.
    return [
        id_
        for id_, text in texts.items()
        if len(text) >= _TIMES and len(text) - len(set(text)) >= _TIMES - 1 and _REPEAT.search(text)
    ]


def variants(texts: Iterable[str]) -> Variants:
    """Group texts that differ only by case or one leading space; only groups of several texts count."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        word = text.removeprefix(" ").casefold()
        if word.strip():
            groups.setdefault(word, []).append(text)
    several = sorted((group for group in groups.values() if len(group) > 1), key=lambda one: (-len(one), -len(one[0])))
    tokens = sum(map(len, several))
    largest = tuple(tuple(readable(text.encode()) for text in group) for group in several[:_EXAMPLES])
    return Variants(len(several), tokens, tokens - len(several), largest)


def script_of(text: str) -> str:
    """Return the script of a text's letters, or what the text consists of if it has none.

    >>> script_of(" привет")
    'Cyrillic'
    """
    if text.isascii():  # most texts, and quick to classify
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
    """Return the script of a letter or mark, or the kind of any other character."""
    if character.isspace():
        return SPACE
    category = unicodedata.category(character)
    if category[0] not in "LM":
        return DIGITS if category[0] == "N" else SIGNS
    words = unicodedata.name(character, "UNNAMED").replace("-", " ").split()
    if words[0] in _WIDTHS:
        words = words[1:]
    if words[0] in _NAMES:
        return _NAMES[words[0]]
    return " ".join(words[: 2 if words[0] in _FIRST_OF_TWO_WORDS else 1]).title()


def readable(token: bytes) -> str:
    """Show a token: a space as ␣, invisible characters and invalid bytes escaped, long tokens shortened.

    >>> readable(b" the\\n")
    '␣the\\\\n'
    """
    text = token.decode(errors="surrogateescape")
    mark_base = "\N{DOTTED CIRCLE}" if text and unicodedata.category(text[0])[0] == "M" else ""
    shortened = "…" if len(text) > _SHOWN_CHARACTERS else ""
    return mark_base + "".join(map(_visible, text[:_SHOWN_CHARACTERS])) + shortened


@cache
def _visible(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"):
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character
