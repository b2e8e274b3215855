"""What a vocabulary holds: pure functions from its tokens to numbers and examples.

The script of a letter is the first word of its Unicode name (`CYRILLIC SMALL LETTER A`): unicodedata has no script
property. Marks, digits and signs that many scripts share count only if a token has nothing else.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nsmallest

from bpe_pipeline.merges.vocabulary import Vocabulary

PARTIAL, SPACE, DIGITS, SIGNS, SEVERAL = (
    *("part of a character", "white space", "digits", "punctuation and symbols", "several scripts"),
)
_SHARED = "shared by scripts"
_KINDS = frozenset({_SHARED, SPACE, DIGITS, SIGNS})  # of characters that are no letters of one script
_NAMES = {"CJK": "Han", "IDEOGRAPHIC": "Han", "KANGXI": "Han", "COMBINING": _SHARED, "MODIFIER": _SHARED}
_SIGNS_AS_LETTERS = (
    "ANGSTROM BLACK CARON DOUBLE EULER FEMININE INFORMATION KELVIN MASCULINE MATHEMATICAL MICRO OHM PLANCK SCRIPT "
    "SPACING SUPERSCRIPT TURNED VARIATION VERTICAL"
)
_NAMES |= dict.fromkeys(_SIGNS_AS_LETTERS.split(), _SHARED)
_WIDTHS = {"FULLWIDTH", "HALFWIDTH"}
_FIRST_OF_TWO_WORDS = {"OLD", "NEW", "OL", "TAI", "MEETEI", "SYLOTI", "CANADIAN", "LINEAR", "WARANG", "HANIFI"}
_URL = re.compile(r"https?:|www\.|://|\.(?:com|org|net|html?|php)\b", re.IGNORECASE)
_TIMES = 8
# No open repetition of a group: its way back would take hundreds of bytes of memory for each character of a long run.
_REPEAT = re.compile(rf"(.{{1,4}}?)\1{{{_TIMES - 1}}}", re.DOTALL)
_EXAMPLES, _LONGEST, _SHOWN_CHARACTERS = 24, 20, 48
_LONG = 64  # characters
_RUN = re.compile(rf"(.)\1{{{_TIMES - 1}}}", re.DOTALL)
_ESCAPES = {" ": "␣", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True)
class TokenExample:
    """A token for people: its readable, shortened text, its full length in bytes, and its occurrences, if known."""

    id: int
    text: str
    bytes: int
    times: int | None = None


@dataclass(frozen=True)
class TokenGroup:
    """Tokens of one kind: their number, and the first of them."""

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
class SpecialToken:
    """A special token. roles: such as "eos, separator"; empty if it has none."""

    text: str
    id: int
    roles: str


@dataclass(frozen=True)
class VocabularyNumbers:
    """The tokens except special ones. groups: of tokens that deserve a look, by name."""

    tokens: int
    bytes: int
    special_tokens: tuple[SpecialToken, ...]
    variants: Variants
    groups: dict[str, TokenGroup]


def vocabulary_numbers(
    vocabulary: Vocabulary,
    special_tokens: Sequence[SpecialToken],
    unreachable: Sequence[int],
    uses: Mapping[int, int] | None = None,
) -> VocabularyNumbers:
    """Describe ordinary tokens. unreachable: ids that merges never produce; uses: see `token_uses`."""
    tokens = vocabulary.tokens
    texts: dict[int, str] = {}
    partial = []
    for id_, token in tokens.items():
        try:
            texts[id_] = token.decode()
        except UnicodeDecodeError:
            partial.append(id_)
    spaces = [id_ for id_, text in texts.items() if text.isspace()]
    groups = {
        "longest": nsmallest(_LONGEST, tokens, key=lambda id_: (-len(tokens[id_]), id_)),
        "numbers": [id_ for id_, text in texts.items() if text.removeprefix(" ").isdecimal()],
        "indentation": sorted(spaces, key=lambda id_: -len(texts[id_])),
        "partial": [id_ for id_ in partial if len(tokens[id_]) > 1],
        "unreachable": unreachable,
        "urls": with_address(texts),
        "repeats": with_repeat(texts),
        "long_signs": [id_ for id_, text in texts.items() if is_long_signs(text)],
        "long_tokens": [id_ for id_, text in texts.items() if is_long(text)],
    }
    if uses is not None:
        groups["unused"], parts = unused_tokens(vocabulary, lambda id_: uses.get(id_, 0) > 0)
        groups["never_used"] = sorted([*groups["unused"], *parts])
    return VocabularyNumbers(
        tokens=len(tokens),
        bytes=sum(map(len, tokens.values())),
        special_tokens=tuple(special_tokens),
        variants=variants(texts.values()),
        groups={name: token_group(ids, tokens, uses) for name, ids in groups.items()},
    )


def shape(tokens: Mapping[int, bytes]) -> tuple[dict[int, int], dict[str, int]]:
    """Count tokens by bytes, shortest first, and by script, most frequent first."""
    scripts = Counter(map(script_of_token, tokens.values()))
    return dict(sorted(Counter(map(len, tokens.values())).items())), dict(scripts.most_common())


@cache
def script_of_token(token: bytes) -> str:
    """Return the script of a token, also of one that is only a part of a character."""
    try:
        return script_of(token.decode())
    except UnicodeDecodeError:
        return PARTIAL


def token_uses(
    left: Sequence[int], right: Sequence[int], joined: Sequence[int], result: Sequence[int]
) -> dict[int, int]:
    """Return how often each merged token, by its id, occurs in the training corpus after all merges, exactly.

    A token occurs as often as its merge joined a pair, less the times that later merges joined it to another one.
    left, right: as the merge engine numbers tokens, 256 + rank; result: the id of each merge's token.

    >>> token_uses([0, 256], [1, 256], [5, 2], [256, 257])  # ab five times, of these abab twice
    {256: 1, 257: 2}
    """
    uses = [0] * 256 + list(joined)
    for first, second, times in zip(left, right, joined, strict=True):
        uses[first] -= times
        uses[second] -= times
    by_id = dict.fromkeys(result, 0)
    for id_, times in zip(result, uses[256:], strict=True):
        by_id[id_] += times
    return by_id


BROKEN = {"unreachable": "never produced", "unused": "neither used nor a part of a token that is"}


def unused_tokens(vocabulary: Vocabulary, occurs: Callable[[int], bool]) -> tuple[list[int], list[int]]:
    """Return the ids of several bytes that never occur in a text: those that are broken, and parts of longer ones.

    occurs: whether an id does. A token is needed if it occurs, or makes one that is needed.
    """
    needed = bytearray(vocabulary.max_id + 1)
    long = [id_ for id_, token in vocabulary.tokens.items() if len(token) > 1]
    for id_ in long:
        needed[id_] = occurs(id_)
    for left, right, result in reversed(list(zip(vocabulary.left, vocabulary.right, vocabulary.result, strict=True))):
        if needed[result]:
            needed[left] = needed[right] = True
    absent = [id_ for id_ in long if not occurs(id_)]
    return [id_ for id_ in absent if not needed[id_]], [id_ for id_ in absent if needed[id_]]


def token_group(ids: Sequence[int], tokens: Mapping[int, bytes], uses: Mapping[int, int] | None = None) -> TokenGroup:
    """Make a group of tokens with the first ones as examples."""
    examples = (
        TokenExample(id_, readable(tokens[id_]), len(tokens[id_]), (uses or {}).get(id_)) for id_ in ids[:_EXAMPLES]
    )
    return TokenGroup(len(ids), tuple(examples))


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


def is_long_signs(text: str) -> bool:
    """Return whether a text has eight signs or more, and no letter, mark or digit.

    >>> is_long_signs("=" * 8), is_long_signs("-" * 7 + " "), is_long_signs("=" * 9 + "a")
    (True, False, False)
    """
    if len(text) < _TIMES or any(map(str.isalnum, text)):
        return False
    categories = Counter(unicodedata.category(character)[0] for character in text)
    return not {"L", "M", "N"} & categories.keys() and categories["P"] + categories["S"] >= _TIMES


def is_long(text: str) -> bool:
    """Return whether a text has more than 64 characters."""
    return len(text) > _LONG


def variants(texts: Iterable[str]) -> Variants:
    """Group texts that differ only by case or one leading space; only groups of several texts count."""
    listed = list(texts)
    words = [text.removeprefix(" ").casefold() for text in listed]
    times = Counter(words)
    groups: dict[str, list[str]] = {}
    for text, word in zip(listed, words, strict=True):
        if times[word] > 1 and word.strip():
            groups.setdefault(word, []).append(text)
    ordered = sorted(groups.values(), key=lambda one: (-len(one), -len(one[0])))
    tokens = sum(map(len, ordered))
    largest = tuple(tuple(readable(text.encode()) for text in group) for group in ordered[:_EXAMPLES])
    return Variants(len(ordered), tokens, tokens - len(ordered), largest)


def script_of(text: str) -> str:
    """Return the script of a text's letters, or what the text consists of if it has none.

    >>> script_of(" привет")
    'Cyrillic'
    """
    if text.isascii():  # most texts, and quick to classify
        if text.isspace():
            return SPACE
        return "Latin" if text.lower() != text.upper() else DIGITS if any(map(str.isdigit, text)) else SIGNS
    scripts = {script_of_character(character) for character in text}
    letters = scripts - _KINDS
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
    """Show a token: a space as ␣, invisible characters and invalid bytes escaped, long runs counted, long tokens
    shortened.

    >>> readable(b" the\\n"), readable(b" " * 128)
    ('␣the\\\\n', '␣ ×128')
    """
    text = token.decode(errors="surrogateescape")
    short = len(text) < _TIMES or (len(text) <= _SHOWN_CHARACTERS and not _RUN.search(text))
    if short and text.isascii() and text.isprintable():  # most tokens, and quick to show
        return text.replace(" ", _ESCAPES[" "])
    mark_base = "\N{DOTTED CIRCLE}" if text and unicodedata.category(text[0])[0] == "M" else ""
    parts, end = [], 0
    while run := _RUN.search(text, end):
        other = re.compile(f"[^{re.escape(run[1])}]").search(text, run.end())
        stop = len(text) if other is None else other.start()
        parts += [_shortened(text[end : run.start()]), f"{_visible(run[1])} ×{stop - run.start()}"]
        end = stop
    return mark_base + " ".join(part for part in (*parts, _shortened(text[end:])) if part)


def _shortened(text: str) -> str:
    return "".join(map(_visible, text[:_SHOWN_CHARACTERS])) + ("…" if len(text) > _SHOWN_CHARACTERS else "")


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
