"""Measure how tokenizers cut a sample: all of it, by source and by script, and how they compare.

The numbers are those of `definitions.py`.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from operator import itemgetter

from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.reports.definitions import AGAINST, LANGUAGES, NUMBERS, TEXT, VOCABULARY, Number, values
from bpe_pipeline.reports.formulas import NumberCuts, number_cuts
from bpe_pipeline.reports.record import MarkedText, MeasuredTokenizer, Record, record_of, script_of_line

_LARGEST_SHARE, _FEWEST_TIMES, _FEWEST_BYTES, _MOST_TOKENS = 0.1, 4, 4, 24  # of tokens of a single source
_MOST_SOURCES = 12
FEWEST_SOURCES = 3  # with fewer, no token is reported as one of a single source
_TOP, _OTHERS = "(not in a directory)", "(others)"
_BATCH = 1024  # documents that are measured at once
_CODE = re.compile(
    r"(?i)\bcode\b|\.(?:[chjrm]|cc|cpp|cs|cu|f90|go|hs|hpp|java|jl|js|kt|lua|php|pl|py|rb|rs|scala|sh|sql|swift|tsx?)$"
)
_OF_SCRIPTS = [NUMBERS[name] for name in ("bytes", "tokens", "bytes_per_token", "tokens_per_word", "whole")]


@dataclass(frozen=True)
class TextMeasures:
    """How a tokenizer cuts some text. For a script, bytes and tokens count its words only. numbers: those of
    `definitions.TEXT` that there are; of code only in sources that are called so."""

    name: str
    bytes: int
    tokens: int
    numbers: dict[str, float]


@dataclass(frozen=True)
class Against:
    """How the first tokenizer compares with this one. nsl: its tokens over those of this one, in all (the key "") and
    by source."""

    nsl: dict[str, float]


@dataclass(frozen=True)
class TokenizerMeasures:
    """How a tokenizer cuts a sample: all of it, by source, and by script of the words and lines.

    languages, vocabulary: numbers of them; costs: of each language. digits: how numbers are cut, by their digits.
    """

    whole: TextMeasures
    sources: tuple[TextMeasures, ...]
    scripts: tuple[TextMeasures, ...]
    used: int
    single_source: tuple[tuple[int, str, int], ...]  # id, source, occurrences
    languages: dict[str, float] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    vocabulary: dict[str, float] = field(default_factory=dict)
    digits: dict[int, NumberCuts] = field(default_factory=dict)
    against: Against | None = None


@dataclass(frozen=True)
class SampleText:
    """What is measured. texts: (source, text). languages: sources that are languages; same: they are the same text, and
    have as many lines."""

    texts: Sequence[tuple[str, str]]
    languages: Sequence[str] = ()
    same: bool = False

    def in_nfc(self) -> "SampleText":
        """Return the same texts in NFC."""
        return replace(self, texts=[(source, nfc(text)) for source, text in self.texts])

    def changed_by_nfc(self) -> dict[str, tuple[int, int]]:
        """Return of each script how many lines NFC changes, and of how many; a line has that of its first letter."""
        lines, changed = Counter[str](), Counter[str]()
        for _, text in self.texts:
            for line in filter(str.strip, text.split("\n")):
                lines[script := script_of_line(line)] += 1
                changed[script] += nfc(line) != line
        return {script: (count, lines[script]) for script, count in changed.items() if count}

    def batches(self) -> Iterator[tuple[str, list[MarkedText]]]:
        """Yield a source and some of its texts: what is found in them is freed with the batch."""
        for source, listed in groupby(self.texts, key=itemgetter(0)):
            is_code = _CODE.search(source) is not None
            while texts := [MarkedText(text, is_code=is_code) for _, text in islice(listed, _BATCH)]:
                yield source, texts

    def cost(self, sums: Mapping[str, float]) -> float:
        """Return the cost of a language: its tokens by lines of the same text, or by characters."""
        return sums.get("tokens", 0) / (sums.get("lines" if self.same else "characters", 0) or 1)


@dataclass
class Counted:
    """The records of a tokenizer, of each source."""

    tokenizer: MeasuredTokenizer
    sources: dict[str, Record] = field(default_factory=dict)

    def add(self, source: str, record: Record) -> None:
        """Add the record of some documents."""
        self.sources.setdefault(source, Record(self.tokenizer.size)).add(record)

    @property
    def whole(self) -> Record:
        """The record of all sources."""
        whole = Record(self.tokenizer.size)
        for record in self.sources.values():
            whole.add(record)
        return whole


def measure(named: Sequence[tuple[str, MeasuredTokenizer]], sample: SampleText) -> tuple[TokenizerMeasures, ...]:
    """Measure how tokenizers cut a sample, in one pass over it. named: the first one is compared with the others."""
    counted = [Counted(tokenizer) for _, tokenizer in named]
    for source, texts in sample.batches():
        for one in counted:
            one.add(source, record_of(one.tokenizer, texts))
    first, *others = counted
    against = [None, *(_against(first, other) for other in others)]
    return tuple(
        _measures(name, one, compared, sample) for (name, _), one, compared in zip(named, counted, against, strict=True)
    )


def _measures(name: str, counted: Counted, against: Against | None, sample: SampleText) -> TokenizerMeasures:
    whole, vocab = counted.whole, counted.tokenizer.vocab
    scripts = {script: Record(0, sums) for script, sums in whole.scripts.items() if script and sums.get("words")}
    there = [language for language in sample.languages if language in counted.sources]  # others have no text
    costs = {language: sample.cost(counted.sources[language].sums) for language in there}
    return TokenizerMeasures(
        whole=_text_measures(name, whole),
        sources=tuple(
            _text_measures(source, record)
            for source, record in sorted(counted.sources.items(), key=lambda item: -item[1].sums.get("bytes", 0))
        ),
        scripts=tuple(
            _text_measures(script, record, _OF_SCRIPTS)
            for script, record in sorted(scripts.items(), key=lambda item: -item[1].sums["words"])
        ),
        used=len(whole.used),
        single_source=_of_single_sources(counted, whole.used),
        languages=values(LANGUAGES, costs) if costs else {},
        costs=costs,
        vocabulary=values(VOCABULARY, vocab),
        digits=number_cuts(whole.numbers),
        against=against,
    )


def _text_measures(name: str, record: Record, numbers: Sequence[Number] = TEXT) -> TextMeasures:
    bytes_, tokens = (int(record.sums.get(one, 0)) for one in ("bytes", "tokens"))
    return TextMeasures(name, bytes_, tokens, values(numbers, record))


def _against(first: Counted, other: Counted) -> Against:
    """Compare the first tokenizer with another one."""
    [nsl] = AGAINST
    pairs = {"": (first.whole, other.whole)}
    pairs |= {source: (first.sources[source], record) for source, record in other.sources.items()}
    tokens = {name: (one.sums["tokens"], theirs.sums["tokens"]) for name, (one, theirs) in pairs.items()}
    return Against({name: ratio for name, pair in tokens.items() if (ratio := nsl.of(pair)) is not None})


def _of_single_sources(counted: Counted, all_ids: Counter[int]) -> tuple[tuple[int, str, int], ...]:
    """Return the most frequent tokens that occur in one source alone, which is a small one of several."""
    sources, tokens = counted.sources, counted.tokenizer.vocab
    if len(sources) < FEWEST_SOURCES:
        return ()
    largest_bytes = sum(record.sums["bytes"] for record in sources.values()) * _LARGEST_SHARE
    candidates = (
        (id_, source, times)
        for source, record in sources.items()
        if record.sums["bytes"] <= largest_bytes
        for id_, times in record.used.items()
        if times >= _FEWEST_TIMES and times == all_ids[id_] and len(tokens[id_]) >= _FEWEST_BYTES
    )
    return tuple(sorted(candidates, key=lambda one: (-one[2], one[0]))[:_MOST_TOKENS])


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
