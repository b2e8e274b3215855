"""The record of how a tokenizer cuts texts: one pass counts what every number in `definitions.py` is derived from.

Nothing here divides. Sums add up over texts, so a record of several sources is the sum of theirs.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

from bpe_pipeline.base.system import cached_property
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.reports.tokens import script_of_character

Sums = dict[str, int]
"""What was counted, by name."""
_NUMBERS = re.compile("([0-9]+)")
_IDENTIFIERS = re.compile("([A-Za-z_][A-Za-z0-9_]*)")
_OPERATORS = re.compile(r"(\*\*|//|<<|>>|<=|>=|=>|==|!=|&&|\|\||\?:|[+\-*/=<>!&|^~%])")
_INDENTATION = re.compile(r"^([ \t]+)(?=\S)", re.MULTILINE)
# A character or as much of its start as there is, else a byte.
_FRAGMENT = re.compile(rb"[\xf0-\xf7][\x80-\xbf]{0,3}|[\xe0-\xef][\x80-\xbf]{0,2}|[\xc0-\xdf][\x80-\xbf]?|[\x00-\xff]")


@dataclass(frozen=True)
class MeasuredTokenizer:
    """What is measured of a tokenizer. stretches: ids and text of each stretch of a text, as of
    `TextEncoder.text_stretches`. vocab: bytes of every token; size: with special tokens, which `vocab` may lack.
    decode: how ids become text, if not by joining their bytes; nfc: it puts text into NFC."""

    stretches: Callable[[str], Iterable[tuple[Sequence[int], bytes]]]
    vocab: Mapping[int, bytes]
    size: int
    decode: Callable[[Sequence[int]], str] | None = None
    nfc: bool = False

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text without its special tokens."""
        return [id_ for ids, _ in self.stretches(text) for id_ in ids]

    @cached_property
    def partial(self) -> dict[int, "Partial"]:
        """The tokens that are not complete UTF-8 characters."""
        return {id_: part for id_, token in self.vocab.items() if (part := partial_token(token)) is not None}


class Partial(NamedTuple):
    """A token that is not complete UTF-8 characters.

    alone: it is one byte of a longer character; crosses: it has bytes of more than one character or loose byte; opens:
    its last character goes on in the next token.
    """

    alone: bool
    crosses: bool
    opens: bool


def partial_token(token: bytes) -> Partial | None:
    """Describe a token that is not complete UTF-8 characters; None for one that is.

    >>> partial_token("é".encode()), partial_token(b"\\xa9\\xc3"), partial_token(b"\\xe2\\x82")
    (None, Partial(alone=False, crosses=True, opens=True), Partial(alone=False, crosses=False, opens=True))
    """
    try:
        token.decode()
    except UnicodeDecodeError:
        fragments = _FRAGMENT.findall(token)
        last = fragments[-1]
        length = next((size for least, size in ((0xF0, 4), (0xE0, 3), (0xC0, 2)) if last[0] >= least), 1)
        return Partial(is_byte_alone(token), len(fragments) > 1, len(last) < length)
    return None


def is_byte_alone(token: bytes) -> bool:
    """Return whether a token is a single byte of a longer character."""
    return len(token) == 1 and token >= b"\x80"


class MarkedText:
    """A text, and where its words, numbers and code are: found once for all tokenizers. Limits are in bytes."""

    def __init__(self, text: str, *, is_code: bool = False) -> None:
        self.text, self.is_code = text, is_code

    @cached_property
    def words(self) -> list[tuple[str, int, int]]:
        """The script and the limits of each run of letters, marks and digits."""
        spans = _spans(_words(), self.text)
        return [(script_of_character(word[0]), begin, end) for word, begin, end in spans]

    @cached_property
    def numbers(self) -> list[tuple[int, int]]:
        """The limits of each run of the digits 0 to 9."""
        return _limits(_NUMBERS, self.text) if _NUMBERS.search(self.text) else []

    @cached_property
    def code(self) -> tuple[list[tuple[int, int]], ...]:
        """The limits of names, operators and the white space in front of lines."""
        return tuple(_limits(pattern, self.text) for pattern in (_IDENTIFIERS, _OPERATORS, _INDENTATION))

    @cached_property
    def lines(self) -> int:
        """How many lines are not blank."""
        return sum(not line.isspace() for line in self.text.split("\n") if line)

    @cached_property
    def amounts(self) -> Sums:
        """Its bytes, characters, and characters of several bytes."""
        characters, short = len(self.text), len(self.text.encode("ascii", "ignore"))
        return {"bytes": len(self.text.encode()), "characters": characters, "long_characters": characters - short}


@cache
def _words() -> Any:
    import regex

    return regex.compile(r"([\p{L}\p{M}\p{N}]+)")


def script_of_line(line: str) -> str:
    """Return the script of the first letter of a line; "" without any."""
    return next((script_of_character(letter) for letter in line if letter.isalpha()), "")


def _limits(pattern: Any, text: str) -> list[tuple[int, int]]:
    return [(begin, end) for _, begin, end in _spans(pattern, text)]


def _spans(pattern: Any, text: str) -> Iterator[tuple[str, int, int]]:
    """Return each match of a pattern, which is one group, and its limits in bytes."""
    pre_tokens = pattern.split(text)  # what is between matches, and these, in turn
    limits = [*accumulate(map(len, pre_tokens if text.isascii() else map(str.encode, pre_tokens)))]
    return zip(pre_tokens[1::2], limits[::2], limits[1::2], strict=False)


@dataclass
class Record:
    """What was counted. used: ids with their counts; numbers: (digits, cuts inside) with theirs; scripts: of the words
    of each script; size: of the vocabulary."""

    size: int
    sums: Sums = field(default_factory=dict)
    scripts: dict[str, Sums] = field(default_factory=lambda: defaultdict(dict))
    used: Counter[int] = field(default_factory=Counter)
    numbers: Counter[tuple[int, tuple[int, ...]]] = field(default_factory=Counter)

    def add(self, other: "Record") -> None:
        """Add what another record of the same tokenizer counted."""
        add_to(self.sums, other.sums)
        for script, sums in other.scripts.items():
            add_to(self.scripts[script], sums)
        self.used.update(other.used)
        self.numbers.update(other.numbers)


def add_to(sums: Sums, more: Mapping[str, int]) -> None:
    """Add amounts to others by their names."""
    for name, amount in more.items():
        sums[name] = sums.get(name, 0) + amount


def record_of(tokenizer: MeasuredTokenizer, texts: Iterable[MarkedText]) -> Record:
    """Count how a tokenizer cuts texts."""
    record = Record(tokenizer.size)
    words = Counter[tuple[str, int, int]]()  # by script, bytes and tokens
    for text in texts:
        _count(record, tokenizer, text, words)
    sums, partial = record.sums, tokenizer.partial
    broken = {id_: record.used[id_] for id_ in record.used.keys() & partial.keys()}
    add_to(sums, {"broken": sum(broken.values()), "words": 0, "overlaps": 0, "whole": 0})
    for at, kind in enumerate(Partial._fields):
        add_to(sums, {kind: sum(times for id_, times in broken.items() if partial[id_][at])})
    for (script, size, overlaps), count in words.items():
        counted = {"words": count, "overlaps": count * overlaps, "whole": count * (overlaps == 1)}
        add_to(sums, counted)
        add_to(record.scripts[script], {**counted, "bytes": count * size, "tokens": count * overlaps})
    return record


def _count(
    record: Record, tokenizer: MeasuredTokenizer, text: MarkedText, words: Counter[tuple[str, int, int]]
) -> None:
    """Count one text."""
    vocab, sums, tokens, decoded, parts = tokenizer.vocab, record.sums, 0, list[str](), list[str]()
    for ids, data in tokenizer.stretches(text.text):
        cut = [vocab[id_] for id_ in ids]
        original, prepared = data.decode(), b"".join(cut).decode(errors="replace")  # both may be normalized
        marked = text if prepared == text.text else MarkedText(prepared, is_code=text.is_code)
        ends = list(accumulate(map(len, cut)))
        for script, begin, end in marked.words:
            words[script, end - begin, overlapping(ends, begin, end)] += 1
        for begin, end in marked.numbers:
            inside = ends[bisect_right(ends, begin) : bisect_left(ends, end)]
            record.numbers[end - begin, tuple(at - begin for at in inside)] += 1
        if text.is_code:
            add_to(sums, _code_sums(marked, ends))
        back = prepared if tokenizer.decode is None else tokenizer.decode(ids)
        add_to(sums, (text if original == text.text else MarkedText(original)).amounts)
        add_to(sums, {"lost": bytes_lost(original, back)})
        record.used.update(ids)
        tokens += len(ids)
        decoded.append(back)
        parts.append(original)
    add_to(sums, {"tokens": tokens})
    # Special tokens of this tokenizer, which cut a text into stretches, are not decoded.
    changed = _changed_lines(text if len(parts) == 1 else MarkedText("".join(parts)), "".join(decoded))
    add_to(sums, {"lines": text.lines, "changed_lines": changed})


def overlapping(ends: Sequence[int], begin: int, end: int) -> int:
    """Return how many tokens, which end at `ends`, overlap a span of bytes."""
    return bisect_left(ends, end) - bisect_right(ends, begin) + 1


def _code_sums(text: MarkedText, ends: Sequence[int]) -> Sums:
    """Count names, operators and indentation, and how they are cut."""
    data = text.text.encode()
    names, operators, indentation = text.code
    whole = sum(overlapping(ends, *span) == 1 for span in names)
    covering = sum(overlapping(ends, *span) for span in indentation)
    alone = 0
    for begin, end in operators:
        first = bisect_right(ends, begin)
        start = ends[first - 1] if first else 0
        alone += ends[bisect_left(ends, end)] == end and data[start:begin] in (b"", b" ")
    counted = {"code_lines": text.lines, "names": len(names), "names_whole": whole}
    counted |= {"operators": len(operators), "operators_alone": alone}
    return {**counted, "indentations": len(indentation), "indentation_tokens": covering}


def _changed_lines(text: MarkedText, decoded: str) -> int:
    """Count the lines that decoding does not return; all, if it returns more or fewer lines."""
    if decoded == text.text:
        return 0
    lines, others = text.text.split("\n"), decoded.split("\n")
    if len(lines) != len(others):
        return text.lines
    pairs = ((line, other) for line, other in zip(lines, others, strict=True) if line.strip())
    return sum(line != other and nfc(line) != other for line, other in pairs)


def bytes_lost(text: str, decoded: str) -> int:
    """Return how many bytes of the NFC of a text are not in what its tokens decode to; what was added does not count.

    >>> bytes_lost("a  b\\n", "a b"), bytes_lost("a", " a"), bytes_lost("e\u0301", "\xe9")
    (2, 0, 0)
    """
    if text == decoded or (text := nfc(text)) == (decoded := nfc(decoded)):
        return 0
    words, gaps = (text.split(), decoded.split()), (re.split(r"\S+", text), re.split(r"\S+", decoded))
    pairs = [*zip(*words, strict=False), *zip(*gaps, strict=False)]
    if any(len(one) != len(other) for one, other in (words, gaps)):  # words were joined or cut
        pairs = [(text, decoded)]
    return sum((Counter(one.encode()) - Counter(other.encode())).total() for one, other in pairs if one != other)
