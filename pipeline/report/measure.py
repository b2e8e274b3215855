"""A sample cut by a tokenizer: how much a token holds, and how words fare.

A word is a run of letters, marks and digits. It is kept whole where no token ends inside of it; its fertility is the
number of tokens that it lies in (as Rust et al., 2021, count subwords per word). Rényi efficiency is that of Zouhar et
al., 2023 ("Tokenization and the noiseless channel"): the Rényi entropy of the tokens' distribution, of order 2.5, over
the logarithm of the vocabulary size.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pipeline.report.tokens import script_of_character

ORDER = 2.5
LEAST_SOURCES, _RARE_SHARE, _LEAST_SEEN, _LEAST_BYTES = 3, 0.1, 4, 4


@dataclass(frozen=True)
class Cut:
    """What became of some text. tokens: that the text has or, of a script, that its words lie in; bytes likewise.

    fertility, whole: of its words. renyi: None for scripts. None: of no words, or no text.
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
class Measured:
    """A tokenizer on a sample: as a whole, by source and by script of the words. unused: ids that do not occur."""

    whole: Cut
    sources: tuple[Cut, ...]
    scripts: tuple[Cut, ...]
    used: int
    single_source: tuple[tuple[int, str, int], ...]  # id, source, times


def measure(
    encode: Callable[[str], Sequence[int]],
    tokens: Mapping[int, bytes],
    texts: Iterable[tuple[str, str]],
    name: str = "",
) -> Measured:
    """Cut texts, each with the source that it is from. tokens: id -> bytes of every token, special ones too."""
    import regex

    find_words = regex.compile(r"[\p{L}\p{M}\p{N}]+").finditer
    total, sources, scripts = _Tally(), dict[str, _Tally](), dict[str, _Tally]()
    for source, text in texts:
        ids = encode(text)
        parts = [tokens[id_] for id_ in ids]
        ends = list(accumulate(map(len, parts)))
        of_source = sources.setdefault(source, _Tally())
        size = len(text.encode())
        of_source.add_text(ids, size)
        total.add_text(ids, size)
        cut = b"".join(parts).decode(errors="replace")  # what the tokens stand for, should the text have been prepared
        ascii_only = cut.isascii()
        at = before = 0
        for match in find_words(cut):
            start, stop = match.span()
            begin = start if ascii_only else at + len(cut[before:start].encode())
            end = stop if ascii_only else begin + len(match[0].encode())
            at, before = end, stop
            touched = bisect_left(ends, end) - bisect_right(ends, begin) + 1
            script = script_of_character(match[0][0])
            of_script = scripts.get(script)
            if of_script is None:
                of_script = scripts[script] = _Tally()
            of_script.bytes += end - begin
            for tally in (total, of_source, of_script):
                tally.words += 1
                tally.touched += touched
                tally.whole += touched == 1
    for tally in scripts.values():
        tally.tokens = tally.touched
    by_size = sorted(sources.items(), key=lambda item: -item[1].bytes)
    by_words = sorted(scripts.items(), key=lambda item: -item[1].words)
    return Measured(
        whole=total.cut(name, len(tokens)),
        sources=tuple(tally.cut(source, len(tokens)) for source, tally in by_size),
        scripts=tuple(tally.cut(script, None) for script, tally in by_words),
        used=len(total.ids),
        single_source=_single_source(total, sources, tokens),
    )


def renyi_efficiency(counts: Iterable[int], vocab_size: int, order: float = ORDER) -> float | None:
    """Rényi entropy of a distribution over the logarithm of the vocabulary size; None of nothing.

    >>> renyi_efficiency([3, 3, 3, 3], 4)
    1.0
    """
    listed = [count for count in counts if count]
    if not listed or vocab_size < 2:
        return None
    total = sum(listed)
    power_sum = math.fsum((count / total) ** order for count in listed)
    return math.log(power_sum) / (1 - order) / math.log(vocab_size) + 0.0


class _Tally:
    """What is added up of some text."""

    def __init__(self) -> None:
        self.bytes = self.tokens = self.words = self.touched = self.whole = 0
        self.ids: Counter[int] = Counter()

    def add_text(self, ids: Sequence[int], size: int) -> None:
        self.bytes += size
        self.tokens += len(ids)
        self.ids.update(ids)

    def cut(self, name: str, vocab_size: int | None) -> Cut:
        return Cut(
            name=name,
            bytes=self.bytes,
            tokens=self.tokens,
            words=self.words,
            fertility=self.touched / self.words if self.words else None,
            whole=self.whole / self.words if self.words else None,
            bytes_per_token=self.bytes / self.tokens if self.tokens else None,
            renyi=None if vocab_size is None else renyi_efficiency(self.ids.values(), vocab_size),
        )


def _single_source(
    total: _Tally, sources: Mapping[str, _Tally], tokens: Mapping[int, bytes]
) -> tuple[tuple[int, str, int], ...]:
    """Tokens of some length, seen several times, that come from one source alone, a small one."""
    if len(sources) < LEAST_SOURCES:
        return ()
    found = []
    for source, tally in sources.items():
        if tally.bytes > total.bytes * _RARE_SHARE:
            continue
        for id_, times in tally.ids.items():
            if times >= _LEAST_SEEN and times == total.ids[id_] and len(tokens[id_]) >= _LEAST_BYTES:
                found.append((id_, source, times))
    return tuple(sorted(found, key=lambda one: (-one[2], one[0]))[:24])
