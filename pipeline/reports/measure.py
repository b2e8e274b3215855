"""Measure how a tokenizer cuts a sample: how much a token holds, and how words fare.

A word is a run of letters, marks and digits. It is whole if no token ends inside it; its fertility is the number of
tokens that overlap it (subwords per word in Rust et al., 2021). Digit F1 measures consistency, which arithmetic needs
(Singh and Strouse, 2024): it compares the token ends inside a number with the most frequent ones in numbers of as many
digits, the mean over numbers; digit by digit and groups of three both score 1. Integrity is the share of tokens that
are whole characters. Fallback is the share of tokens that are one byte of a longer character. Rényi efficiency is that
of Zouhar et al., 2023 ("Tokenization and the noiseless channel"): the Rényi entropy of order 2.5 of the token
distribution, divided by the logarithm of the vocabulary size.
"""

import math
import os
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any

from pipeline.pattern.normal_form import nfc
from pipeline.reports.tokens import script_of_character

_ORDER = 2.5
_NUMBERS = re.compile("[0-9]+")
_LARGEST_SHARE, _FEWEST_TIMES, _FEWEST_BYTES, _MOST_TOKENS = 0.1, 4, 4, 24  # of tokens of a single source
_MOST_SOURCES = 12
FEWEST_SOURCES = 3  # with fewer, no token is reported as one of a single source
_TOP, _OTHERS = "(not in a directory)", "(others)"


@dataclass(frozen=True)
class MeasuredTokenizer:
    """What is measured of a tokenizer. stretches: ids and text of each stretch of a text, as of
    `TextEncoder.text_stretches`. vocab: bytes of every token; size: with special tokens, which `vocab` may lack.
    decode: how ids become text, if not by joining their bytes."""

    stretches: Callable[[str], Iterable[tuple[Sequence[int], bytes]]]
    vocab: Mapping[int, bytes]
    size: int
    decode: Callable[[Sequence[int]], str] | None = None

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text without its special tokens."""
        return [id_ for ids, _ in self.stretches(text) for id_ in ids]


@dataclass(frozen=True)
class TextMeasures:
    """How a tokenizer cuts some text. For a script, bytes and tokens count its words only, and what depends on which
    tokens they are, from renyi on, is None. lost: bytes of the text that decoding its tokens does not return;
    bytes_per_token is without them.

    fertility: tokens per word; whole: share of words kept whole. Both are None without words. digit_f1: None without
    numbers.
    """

    name: str
    bytes: int
    tokens: int
    words: int
    fertility: float | None
    whole: float | None
    bytes_per_token: float | None
    renyi: float | None = None
    characters: int | None = None
    characters_per_token: float | None = None
    integrity: float | None = None
    fallback: float | None = None
    digit_f1: float | None = None
    lost: int | None = None


@dataclass(frozen=True)
class TokenizerMeasures:
    """How a tokenizer cuts a sample: all of it, by source, and by script of the words. used: ids that occur in it."""

    whole: TextMeasures
    sources: tuple[TextMeasures, ...]
    scripts: tuple[TextMeasures, ...]
    used: int
    single_source: tuple[tuple[int, str, int], ...]  # id, source, occurrences


def _text_measures(
    name: str,
    sums: Counter[str],
    used: Mapping[int, int] | None = None,
    vocab: Mapping[int, bytes] | None = None,
    digit_f1: float | None = None,
) -> TextMeasures:
    """Divide what was counted. overlaps: tokens that overlap a word, summed over the words. used: ids with counts."""
    tokens, words = sums["tokens"], sums["words"]
    more: dict[str, Any] = {}
    if used is not None and vocab is not None:
        bytes_alone = sum(times for id_, times in used.items() if is_byte_alone(vocab[id_]))
        broken = sum(times for id_, times in used.items() if "\ufffd" in vocab[id_].decode(errors="replace"))
        more = {
            "renyi": renyi_efficiency(used.values(), len(vocab)),
            "characters": sums["characters"],
            "characters_per_token": sums["characters"] / tokens if tokens else None,
            "integrity": 1 - broken / tokens if tokens else None,
            "fallback": bytes_alone / tokens if tokens else None,
            "digit_f1": digit_f1,
            "lost": sums["lost"],
        }
    return TextMeasures(
        name=name,
        bytes=sums["bytes"],
        tokens=tokens,
        words=words,
        fertility=sums["overlaps"] / words if words else None,
        whole=sums["whole"] / words if words else None,
        bytes_per_token=(sums["bytes"] - sums["lost"]) / tokens if tokens else None,
        **more,
    )


def measure(tokenizer: MeasuredTokenizer, texts: Iterable[tuple[str, str]], name: str = "") -> TokenizerMeasures:
    """Measure how a tokenizer cuts (source, text) pairs."""
    import regex

    tokens, decode = tokenizer.vocab, tokenizer.decode
    find_words = regex.compile(r"[\p{L}\p{M}\p{N}]+")
    sources: defaultdict[str, Counter[str]] = defaultdict(Counter)
    scripts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    used: defaultdict[str, Counter[int]] = defaultdict(Counter)  # ids by source
    numbers: defaultdict[str, Counter[tuple[int, tuple[int, ...]]]] = defaultdict(Counter)  # digits and cuts by source
    cuts: Counter[tuple[str, str, int, int]] = Counter()  # words by source, script, bytes and tokens
    for source, ids, data in ((source, *cut) for source, text in texts for cut in tokenizer.stretches(text)):
        text = data.decode()
        used[source].update(ids)
        cut_tokens = [tokens[id_] for id_ in ids]
        ends = list(accumulate(map(len, cut_tokens)))
        prepared = b"".join(cut_tokens).decode(errors="replace")  # the tokenizer may have normalized the text
        for word, begin, end in _spans(find_words, prepared):
            overlaps = bisect_left(ends, end) - bisect_right(ends, begin) + 1
            cuts[source, script_of_character(word[0]), end - begin, overlaps] += 1
        for number, begin, end in _spans(_NUMBERS, prepared):
            inside = ends[bisect_right(ends, begin) : bisect_left(ends, end)]
            numbers[source][len(number), tuple(cut - begin for cut in inside)] += 1
        lost = bytes_lost(text, prepared if decode is None else decode(ids))
        sources[source].update(bytes=len(text.encode()), tokens=len(ids), characters=len(text), lost=lost)
    for (source, script, size, overlaps), words in cuts.items():
        of_words = {"words": words, "overlaps": words * overlaps, "whole": words * (overlaps == 1)}
        sources[source].update(of_words)
        scripts[script].update(of_words, bytes=words * size, tokens=words * overlaps)
    total, all_ids = sum(sources.values(), Counter[str]()), sum(used.values(), Counter[int]())
    return TokenizerMeasures(
        whole=_text_measures(name, total, all_ids, tokens, mean_digit_f1(sum(numbers.values(), Counter()))),
        sources=tuple(
            _text_measures(source, sums, used[source], tokens, mean_digit_f1(numbers[source]))
            for source, sums in sorted(sources.items(), key=lambda item: -item[1]["bytes"])
        ),
        scripts=tuple(
            _text_measures(script, sums) for script, sums in sorted(scripts.items(), key=lambda item: -item[1]["words"])
        ),
        used=len(all_ids),
        single_source=_of_single_sources(sources, used, all_ids, tokens),
    )


def _of_single_sources(
    sources: Mapping[str, Counter[str]],
    used: Mapping[str, Counter[int]],
    all_ids: Counter[int],
    tokens: Mapping[int, bytes],
) -> tuple[tuple[int, str, int], ...]:
    """Return the most frequent tokens that occur in one source alone, which is a small one of several."""
    if len(sources) < FEWEST_SOURCES:
        return ()
    largest_bytes = sum(sums["bytes"] for sums in sources.values()) * _LARGEST_SHARE
    candidates = (
        (id_, source, times)
        for source, ids in used.items()
        if sources[source]["bytes"] <= largest_bytes
        for id_, times in ids.items()
        if times >= _FEWEST_TIMES and times == all_ids[id_] and len(tokens[id_]) >= _FEWEST_BYTES
    )
    return tuple(sorted(candidates, key=lambda one: (-one[2], one[0]))[:_MOST_TOKENS])


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


def is_byte_alone(token: bytes) -> bool:
    """Return whether a token is a single byte of a longer character."""
    return len(token) == 1 and token >= b"\x80"


def _spans(pattern: Any, text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each match and its limits in bytes."""
    if text.isascii():
        yield from ((match[0], *match.span()) for match in pattern.finditer(text))
        return
    end = character = 0
    for match in pattern.finditer(text):
        start, matched = match.start(), match[0]
        begin = end + len(text[character:start].encode())
        end, character = begin + len(matched.encode()), match.end()
        yield matched, begin, end


def digit_f1(cuts: Iterable[int], usual: Iterable[int]) -> float:
    """Compare the cuts in a number with the usual ones in numbers of as many digits.

    >>> digit_f1([1, 2], [1, 2]), digit_f1([], []), digit_f1([3], []), digit_f1([1, 4], [1, 3])
    (1.0, 1.0, 0.0, 0.5)
    """
    ends, usual_ends = set(cuts), set(usual)
    return 2 * len(ends & usual_ends) / (len(ends) + len(usual_ends)) if ends or usual_ends else 1.0


def mean_digit_f1(numbers: Mapping[tuple[int, tuple[int, ...]], int]) -> float | None:
    """Return the mean of `digit_f1` over numbers of (digits, cuts); None without any.

    >>> mean_digit_f1({(4, (1, 2, 3)): 5, (3, (1, 2)): 5}), mean_digit_f1({(4, ()): 3, (4, (2,)): 1})
    (1.0, 0.75)
    """
    usual: dict[int, tuple[int, tuple[int, ...]]] = {}  # of each number of digits: how often, and the cuts
    for (digits, cuts), times in sorted(numbers.items()):
        usual[digits] = max(usual.get(digits, (0, ())), (times, cuts), key=itemgetter(0))
    total = sum(numbers.values())
    scores = (times * digit_f1(cuts, usual[digits][1]) for (digits, cuts), times in numbers.items())
    return math.fsum(scores) / total if total else None


def gini(values: Sequence[float]) -> float | None:
    """Return the Gini coefficient: 0 if all values are equal, near 1 if one has everything; None without any.

    >>> gini([1, 1, 1]), gini([0, 0, 0, 4])
    (0.0, 0.75)
    """
    listed, total = sorted(values), sum(values)
    if not total:
        return None
    return sum((2 * rank - len(listed) - 1) * value for rank, value in enumerate(listed, 1)) / (len(listed) * total)


def renyi_efficiency(counts: Iterable[int], vocab_size: int) -> float | None:
    """Return the Rényi entropy of a distribution over the logarithm of the vocabulary size; None if it is empty.

    >>> renyi_efficiency([3, 3, 3, 3], 4)
    1.0
    """
    listed = [count for count in counts if count]
    if not listed or vocab_size < 2:
        return None
    total = sum(listed)
    power_sum = math.fsum((count / total) ** _ORDER for count in listed)
    return math.log(power_sum) / (1 - _ORDER) / math.log(vocab_size) + 0.0


def source_names(paths: Sequence[str]) -> dict[str, str]:
    """Name the source of each path, with at most 12 different names.

    Up to 12 files are named by their paths below their common directory; more files by the first directory below it, or
    in one directory by as much of the start of their names as leaves 2 to 12; the rarest of these together.
    """
    split = {path: path.split("/") for path in paths}
    parents = [parts[:-1] for parts in split.values()]
    common = len(os.path.commonprefix(parents))  # noqa: RUF071 - of lists, component by component
    if len(split) <= _MOST_SOURCES:
        return {path: "/".join(parts[common:]) for path, parts in split.items()}
    names = {path: parts[common] if len(parts) > common + 1 else _TOP for path, parts in split.items()}
    if set(names.values()) == {_TOP}:
        names = _starts([path.rpartition("/")[2] for path in split], list(split))
    frequent = [name for name, _ in Counter(names[path] for path in paths).most_common()]
    kept = frequent if len(frequent) <= _MOST_SOURCES else frequent[: _MOST_SOURCES - 1]
    return {path: name if name in kept else _OTHERS for path, name in names.items()}


def _starts(files: Sequence[str], paths: Sequence[str]) -> dict[str, str]:
    """Name the source of each path by words of its file's name: of those before the first digit, if they differ."""
    heads = [re.split(r"\d", file.partition(".")[0])[0].rstrip("-_ ") or file for file in files]
    heads = heads if len(set(heads)) > 1 else list(files)
    words = [[match.end() for match in re.finditer(r"[^\W\d_]+|\d+", head)] or [len(head)] for head in heads]
    depths = range(max(map(len, words)))
    levels = [[head[: ends[: at + 1][-1]] for head, ends in zip(heads, words, strict=True)] for at in depths]
    fitting = [level for level in levels if 2 <= len(set(level)) <= _MOST_SOURCES]
    distinguishing = next((level for level in levels if len(set(level)) > 1), levels[0])
    return dict(zip(paths, fitting[-1] if fitting else distinguishing, strict=True))
