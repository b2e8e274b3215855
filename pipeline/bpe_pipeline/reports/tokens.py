"""What a vocabulary holds: pure functions from its tokens to numbers and examples.

The script of a letter is the first word of its Unicode name (`CYRILLIC SMALL LETTER A`): unicodedata has no script
property.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nsmallest

from bpe_pipeline.merges.vocabulary import Vocabulary

_NAMES = {"CJK": "Han", "IDEOGRAPHIC": "Han", "KANGXI": "Han", "COMBINING": "", "MODIFIER": ""}
_SIGNS_AS_LETTERS = (
    "ANGSTROM BLACK CARON DOUBLE EULER FEMININE INFORMATION KELVIN MASCULINE MATHEMATICAL MICRO OHM PLANCK SCRIPT "
    "SPACING SUPERSCRIPT TURNED VARIATION VERTICAL"
)
_NAMES |= dict.fromkeys(_SIGNS_AS_LETTERS.split(), "")
_WIDTHS = {"FULLWIDTH", "HALFWIDTH"}
_FIRST_OF_TWO_WORDS = {"OLD", "NEW", "OL", "TAI", "MEETEI", "SYLOTI", "CANADIAN", "LINEAR", "WARANG", "HANIFI"}
UNSPACED = frozenset(("Han", "Hiragana", "Katakana", "Bopomofo", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"))
"""Scripts that are written without spaces between words."""
_EXAMPLES, _SHOWN_CHARACTERS, _LEAST_RUN = 24, 48, 8
_RUN = re.compile(rf"(.)\1{{{_LEAST_RUN - 1}}}", re.DOTALL)
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
    groups: dict[str, TokenGroup]


def vocabulary_numbers(
    vocabulary: Vocabulary,
    special_tokens: Sequence[SpecialToken],
    unreachable: Sequence[int],
    uses: Mapping[int, int] | None = None,
) -> VocabularyNumbers:
    """Describe ordinary tokens. unreachable: ids that merges never produce; uses: see `token_uses`."""
    tokens = vocabulary.tokens
    longest = nsmallest(_EXAMPLES, tokens, key=lambda id_: (-len(tokens[id_]), id_))
    groups = {"longest": longest, "unreachable": unreachable}
    if uses is not None:
        groups["unused"], parts = unused_tokens(vocabulary, lambda id_: uses.get(id_, 0) > 0)
        groups["never_used"] = sorted([*groups["unused"], *parts])
    known = uses or {}

    def example(id_: int) -> TokenExample:
        return TokenExample(id_, readable(tokens[id_]), len(tokens[id_]), known.get(id_))

    return VocabularyNumbers(
        tokens=len(tokens),
        bytes=sum(map(len, tokens.values())),
        special_tokens=tuple(special_tokens),
        groups={name: TokenGroup(len(ids), tuple(map(example, ids[:_EXAMPLES]))) for name, ids in groups.items()},
    )


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


def scripts_of(texts: Iterable[str]) -> Counter[str]:
    """Count texts by the script of their first letter, "" without any."""
    letters = Counter(next(filter(str.isalpha, text), "") for text in texts)
    scripts = Counter[str]()
    for letter, count in letters.items():
        scripts[script_of_character(letter) if letter else ""] += count
    return scripts


@cache
def script_of_character(character: str) -> str:
    """Return the script of a letter or mark; "" of any other character, and of letters that scripts share.

    >>> script_of_character("п"), script_of_character("7")
    ('Cyrillic', '')
    """
    if unicodedata.category(character)[0] not in "LM":
        return ""
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
    short = len(text) < _LEAST_RUN or (len(text) <= _SHOWN_CHARACTERS and not _RUN.search(text))
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
