"""Measure how a tokenizer cuts a sample: how much a token holds, and how words fare.

A word is a run of letters, marks and digits. It is whole if no token ends inside it; its fertility is the number of
tokens that overlap it (subwords per word in Rust et al., 2021). Rényi efficiency is that of Zouhar et al., 2023
("Tokenization and the noiseless channel"): the Rényi entropy of order 2.5 of the token distribution, divided by the
logarithm of the vocabulary size.
"""

import math
import os
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pipeline.report.tokens import script_of_character

_ORDER = 2.5
_LARGEST_SHARE, _FEWEST_TIMES, _FEWEST_BYTES, _MOST_TOKENS = 0.1, 4, 4, 24  # of tokens of a single source
_MOST_SOURCES = 12
FEWEST_SOURCES = 3  # with fewer, no token is reported as one of a single source
_TOP, _OTHERS = "(not in a directory)", "(others)"


@dataclass(frozen=True)
class TextMeasures:
    """How a tokenizer cuts some text. For a script, bytes and tokens count its words only, and renyi is None.

    fertility: tokens per word; whole: share of words kept whole. Both are None without words.
    """

    name: str
    bytes: int
    tokens: int
    words: int
    fertility: float | None
    whole: float | None
    bytes_per_token: float | None
    renyi: float | None = None


@dataclass(frozen=True)
class TokenizerMeasures:
    """How a tokenizer cuts a sample: all of it, by source, and by script of the words. used: ids that occur in it."""

    whole: TextMeasures
    sources: tuple[TextMeasures, ...]
    scripts: tuple[TextMeasures, ...]
    used: int
    single_source: tuple[tuple[int, str, int], ...]  # id, source, occurrences


def _text_measures(name: str, sums: Counter[str], renyi: float | None = None) -> TextMeasures:
    """Divide what was counted. overlaps: tokens that overlap a word, summed over the words."""
    tokens, words = sums["tokens"], sums["words"]
    return TextMeasures(
        name=name,
        bytes=sums["bytes"],
        tokens=tokens,
        words=words,
        fertility=sums["overlaps"] / words if words else None,
        whole=sums["whole"] / words if words else None,
        bytes_per_token=sums["bytes"] / tokens if tokens else None,
        renyi=renyi,
    )


def measure(
    encode: Callable[[str], Sequence[int]],
    tokens: Mapping[int, bytes],
    texts: Iterable[tuple[str, str]],
    name: str = "",
) -> TokenizerMeasures:
    """Measure (source, text) pairs. tokens: id -> bytes of every token, special ones included."""
    import regex

    find_words = regex.compile(r"[\p{L}\p{M}\p{N}]+").finditer
    sources: defaultdict[str, Counter[str]] = defaultdict(Counter)
    scripts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    used: defaultdict[str, Counter[int]] = defaultdict(Counter)  # ids by source
    for source, text in texts:
        ids = encode(text)
        used[source].update(ids)
        data = [tokens[id_] for id_ in ids]
        ends = list(accumulate(map(len, data)))
        prepared = b"".join(data).decode(errors="replace")  # the tokenizer may have normalized the text
        cuts: defaultdict[tuple[str, int, int], int] = defaultdict(int)  # words by script, bytes and tokens
        end = character = 0
        for match in find_words(prepared):
            word, start = match[0], match.start()
            begin = end + len(prepared[character:start].encode())
            end, character = begin + len(word.encode()), match.end()
            overlaps = bisect_left(ends, end) - bisect_right(ends, begin) + 1
            cuts[script_of_character(word[0]), end - begin, overlaps] += 1
        sources[source].update(bytes=len(text.encode()), tokens=len(ids))
        for (script, size, overlaps), words in cuts.items():
            found = {"words": words, "overlaps": words * overlaps, "whole": words * (overlaps == 1)}
            sources[source].update(found)
            scripts[script].update(found, bytes=words * size, tokens=words * overlaps)
    total, all_ids = sum(sources.values(), Counter[str]()), sum(used.values(), Counter[int]())
    largest_bytes = total["bytes"] * _LARGEST_SHARE if len(sources) >= FEWEST_SOURCES else -1
    single_source = (
        (id_, source, times)
        for source, ids_of_source in used.items()
        if sources[source]["bytes"] <= largest_bytes
        for id_, times in ids_of_source.items()
        if times >= _FEWEST_TIMES and times == all_ids[id_] and len(tokens[id_]) >= _FEWEST_BYTES
    )
    return TokenizerMeasures(
        whole=_text_measures(name, total, renyi_efficiency(all_ids.values(), len(tokens))),
        sources=tuple(
            _text_measures(source, sums, renyi_efficiency(used[source].values(), len(tokens)))
            for source, sums in sorted(sources.items(), key=lambda item: -item[1]["bytes"])
        ),
        scripts=tuple(
            _text_measures(script, sums) for script, sums in sorted(scripts.items(), key=lambda item: -item[1]["words"])
        ),
        used=len(all_ids),
        single_source=tuple(sorted(single_source, key=lambda one: (-one[2], one[0]))[:_MOST_TOKENS]),
    )


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

    Up to 12 files are named by their paths below their common directory; more files by the first directory below it,
    the rarest of these together.
    """
    split = {path: path.split("/") for path in paths}
    parents = [parts[:-1] for parts in split.values()]
    common = len(os.path.commonprefix(parents))  # noqa: RUF071 - of lists, component by component
    if len(split) <= _MOST_SOURCES:
        return {path: "/".join(parts[common:]) for path, parts in split.items()}
    names = {path: parts[common] if len(parts) > common + 1 else _TOP for path, parts in split.items()}
    frequent = [name for name, _ in Counter(names[path] for path in paths).most_common()]
    kept = frequent if len(frequent) <= _MOST_SOURCES else frequent[: _MOST_SOURCES - 1]
    return {path: name if name in kept else _OTHERS for path, name in names.items()}
