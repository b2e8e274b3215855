"""Measure how a tokenizer cuts a sample: how much a token holds, and how words fare.

A word is a run of letters, marks and digits. It is whole if no token ends inside it; its fertility is the number of
tokens that overlap it (subwords per word in Rust et al., 2021). Rényi efficiency is that of Zouhar et al., 2023
("Tokenization and the noiseless channel"): the Rényi entropy of order 2.5 of the token distribution, divided by the
logarithm of the vocabulary size.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from pipeline.report.numbers import FEWEST_SOURCES, TextMeasures, TokenizerMeasures
from pipeline.report.tokens import script_of_character

_ORDER = 2.5
_LARGEST_SHARE, _FEWEST_TIMES, _FEWEST_BYTES, _MOST_TOKENS = 0.1, 4, 4, 24  # of tokens of a single source
_MOST_SOURCES = 12
_TOP, _OTHERS = "(not in a directory)", "(others)"


@dataclass
class _Tally:
    bytes: int = 0
    tokens: int = 0
    words: int = 0
    overlaps: int = 0  # tokens that overlap a word, summed over the words
    whole: int = 0
    ids: Counter[int] = field(default_factory=Counter)

    def measures(self, name: str, vocab_size: int | None = None) -> TextMeasures:
        return TextMeasures(
            name=name,
            bytes=self.bytes,
            tokens=self.tokens,
            words=self.words,
            fertility=self.overlaps / self.words if self.words else None,
            whole=self.whole / self.words if self.words else None,
            bytes_per_token=self.bytes / self.tokens if self.tokens else None,
            renyi=None if vocab_size is None else renyi_efficiency(self.ids.values(), vocab_size),
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
    total = _Tally()
    sources: defaultdict[str, _Tally] = defaultdict(_Tally)
    scripts: defaultdict[str, _Tally] = defaultdict(_Tally)
    for source, text in texts:
        ids = encode(text)
        of_source = sources[source]
        text_bytes = len(text.encode())
        for tally in (total, of_source):
            tally.bytes += text_bytes
            tally.tokens += len(ids)
            tally.ids.update(ids)
        data = [tokens[id_] for id_ in ids]
        ends = list(accumulate(map(len, data)))
        prepared = b"".join(data).decode(errors="replace")  # the tokenizer may have normalized the text
        end = character = 0
        for match in find_words(prepared):
            word, start = match[0], match.start()
            begin = end + len(prepared[character:start].encode())
            end, character = begin + len(word.encode()), match.end()
            overlaps = bisect_left(ends, end) - bisect_right(ends, begin) + 1
            of_script = scripts[script_of_character(word[0])]
            of_script.bytes += end - begin
            of_script.tokens += overlaps
            for tally in (total, of_source, of_script):
                tally.words += 1
                tally.overlaps += overlaps
                tally.whole += overlaps == 1
    by_bytes = sorted(sources.items(), key=lambda item: -item[1].bytes)
    by_words = sorted(scripts.items(), key=lambda item: -item[1].words)
    return TokenizerMeasures(
        whole=total.measures(name, len(tokens)),
        sources=tuple(tally.measures(source, len(tokens)) for source, tally in by_bytes),
        scripts=tuple(tally.measures(script) for script, tally in by_words),
        used=len(total.ids),
        single_source=_single_source(total, sources, tokens),
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


def _single_source(
    total: _Tally, sources: Mapping[str, _Tally], tokens: Mapping[int, bytes]
) -> tuple[tuple[int, str, int], ...]:
    """List long enough tokens that occur several times, all in one small source."""
    if len(sources) < FEWEST_SOURCES:
        return ()
    found = [
        (id_, source, times)
        for source, tally in sources.items()
        if tally.bytes <= total.bytes * _LARGEST_SHARE
        for id_, times in tally.ids.items()
        if times >= _FEWEST_TIMES and times == total.ids[id_] and len(tokens[id_]) >= _FEWEST_BYTES
    ]
    return tuple(sorted(found, key=lambda one: (-one[2], one[0]))[:_MOST_TOKENS])


def source_names(paths: Sequence[str]) -> dict[str, str]:
    """Name the source of each path, with at most 12 different names.

    Up to 12 files are named by their paths below their common directory; more files by the first directory below it,
    the rarest of these together.
    """
    split = {path: path.split("/") for path in paths}
    parents = [parts[:-1] for parts in split.values()]
    common = 0
    while parents and all(len(parts) > common and parts[common] == parents[0][common] for parts in parents):
        common += 1
    if len(split) <= _MOST_SOURCES:
        return {path: "/".join(parts[common:]) for path, parts in split.items()}
    names = {path: parts[common] if len(parts) > common + 1 else _TOP for path, parts in split.items()}
    frequent = [name for name, _ in Counter(names[path] for path in paths).most_common()]
    kept = frequent if len(frequent) <= _MOST_SOURCES else frequent[: _MOST_SOURCES - 1]
    return {path: name if name in kept else _OTHERS for path, name in names.items()}
