"""The record of how a tokenizer cuts texts: one pass counts what every number in `definitions.py` is derived from.

Nothing here divides. Sums add up over texts, so a record of several sources is the sum of theirs.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Any

from bpe_pipeline.base.system import cached_property
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.reports.tokens import script_of_character

_NUMBERS = re.compile("([0-9]+)")


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
    def broken(self) -> frozenset[int]:
        """The ids of tokens that are not complete UTF-8 characters."""
        return frozenset(id_ for id_, token in self.vocab.items() if not token.isascii() and not _is_utf8(token))


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


class MarkedText:
    """A text, and where its words and numbers are: found once for all tokenizers. Limits are in bytes."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def words(self) -> list[tuple[str, int, int]]:
        """The script and the limits of each run of letters, marks and digits."""
        spans = _spans(_words(), self.text)
        return [(script_of_character(word[0]), begin, end) for word, begin, end in spans]

    @cached_property
    def numbers(self) -> list[tuple[int, int]]:
        """The limits of each run of the digits 0 to 9."""
        return [(begin, end) for _, begin, end in _spans(_NUMBERS, self.text)] if _NUMBERS.search(self.text) else []

    @cached_property
    def lines(self) -> int:
        """How many lines are not blank."""
        return sum(not line.isspace() for line in self.text.split("\n") if line)


@cache
def _words() -> Any:
    import regex

    return regex.compile(r"([\p{L}\p{M}\p{N}]+)")


def _spans(pattern: Any, text: str) -> Iterator[tuple[str, int, int]]:
    """Return each match of a pattern, which is one group, and its limits in bytes."""
    parts = pattern.split(text)  # what is between matches, and these, in turn
    limits = [*accumulate(map(len, parts if text.isascii() else map(str.encode, parts)))]
    return zip(parts[1::2], limits[::2], limits[1::2], strict=False)


@dataclass
class Record:
    """What was counted of some texts. sums: amounts by name; used: ids; words: (script, bytes, tokens that overlap);
    numbers: (digits, cuts inside)."""

    tokenizer: MeasuredTokenizer
    sums: Counter[str] = field(default_factory=Counter)
    used: Counter[int] = field(default_factory=Counter)
    words: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    numbers: Counter[tuple[int, tuple[int, ...]]] = field(default_factory=Counter)

    def add(self, other: "Record") -> None:
        """Add what another record of the same tokenizer counted."""
        self.sums.update(other.sums)
        self.used.update(other.used)
        self.words.update(other.words)
        self.numbers.update(other.numbers)

    @property
    def broken(self) -> int:
        """How many tokens are not complete characters."""
        return sum(self.used[id_] for id_ in self.used.keys() & self.tokenizer.broken)

    @property
    def scripts(self) -> Counter[str]:
        """The bytes of the words of each script."""
        scripts = Counter[str]()
        for (script, size, _), count in self.words.items():
            scripts[script] += count * size
        return scripts

    def count(self, text: MarkedText) -> None:
        """Count how the tokenizer cuts a text."""
        vocab, sums, decoded, parts = self.tokenizer.vocab, self.sums, list[str](), list[str]()
        for ids, data in self.tokenizer.stretches(text.text):
            cut = [vocab[id_] for id_ in ids]
            original, prepared = data.decode(), b"".join(cut).decode(errors="replace")  # both may be normalized
            marked = text if prepared == text.text else MarkedText(prepared)
            ends = list(accumulate(map(len, cut)))
            for script, begin, end in marked.words:
                self.words[script, end - begin, overlapping(ends, begin, end)] += 1
            for begin, end in marked.numbers:
                inside = ends[bisect_right(ends, begin) : bisect_left(ends, end)]
                self.numbers[end - begin, tuple(at - begin for at in inside)] += 1
            back = prepared if self.tokenizer.decode is None else self.tokenizer.decode(ids)
            sums["bytes"] += len(data)
            sums["characters"] += len(original)
            sums["lost"] += bytes_lost(original, back)
            sums["tokens"] += len(ids)
            self.used.update(ids)
            decoded.append(back)
            parts.append(original)
        # Special tokens of this tokenizer, which cut a text into stretches, are not decoded.
        whole = text if len(parts) == 1 else MarkedText("".join(parts))
        sums["lines"] += text.lines
        sums["changed_lines"] += _changed_lines(whole, "".join(decoded))


def overlapping(ends: Sequence[int], begin: int, end: int) -> int:
    """Return how many tokens, which end at `ends`, overlap a span of bytes."""
    return bisect_left(ends, end) - bisect_right(ends, begin) + 1


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
