"""Measure how tokenizers cut a sample: all of it, by source and by script, and how they compare.

The numbers are those of `definitions.py`. What two tokenizers differ by comes with the interval that holds 95 % of the
differences in 200 bootstrap samples of the documents: of a group of them each, where there are many.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from random import Random

from bpe_pipeline.reports.definitions import AGAINST, LANGUAGES, NUMBERS, TEXT, VOCABULARY, Number, values
from bpe_pipeline.reports.formulas import NumberCuts, number_cuts
from bpe_pipeline.reports.record import GROUPS, MarkedText, MeasuredTokenizer, Record, Sums, add_to, record_of

_LARGEST_SHARE, _FEWEST_TIMES, _FEWEST_BYTES, _MOST_TOKENS = 0.1, 4, 4, 24  # of tokens of a single source
_MOST_SOURCES = 12
FEWEST_SOURCES = 3  # with fewer, no token is reported as one of a single source
_TOP, _OTHERS = "(not in a directory)", "(others)"
_SAMPLES, _OUTSIDE, _FEWEST_GROUPS = 200, 5, 10  # of a bootstrap; of them on each side of the interval
_CODE = re.compile(
    r"(?i)\bcode\b|\.(?:[chjrm]|cc|cpp|cs|cu|f90|go|hs|hpp|java|jl|js|kt|lua|php|pl|py|rb|rs|scala|sh|sql|swift|tsx?)$"
)
_OF_SCRIPTS = [
    NUMBERS[name] for name in ("bytes", "tokens", "bytes_per_token", "tokens_per_word", "whole", "lines", "round_trip")
]

Interval = tuple[float, float]


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
    """How the first tokenizer compares with this one. nsl: its tokens over those of this one, in all and by source;
    differences: intervals of the first one's numbers less those of this one; none with few documents."""

    nsl: dict[str, float]
    interval: Interval | None
    differences: dict[str, Interval]


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

    def groups(self) -> Iterator[tuple[str, int, list[MarkedText]]]:
        """Yield the source, the number of the group and its texts."""
        groups: defaultdict[tuple[str, int], list[MarkedText]] = defaultdict(list)
        listed = Counter[str]()
        for source, text in self.texts:
            is_code = _CODE.search(source) is not None
            groups[source, listed[source] % GROUPS].append(MarkedText(text, is_code=is_code))
            listed[source] += 1
        while groups:  # what was counted is freed
            (source, group), texts = next(iter(groups.items()))
            del groups[source, group]
            yield source, group, texts

    @property
    def of_cost(self) -> tuple[str, str]:
        """What the cost of a language divides: tokens by lines of the same text, or by characters."""
        return "tokens", "lines" if self.same else "characters"

    def cost(self, sums: Mapping[str, float]) -> float:
        """Return the cost of a language."""
        tokens, amount = self.of_cost
        return sums.get(tokens, 0) / (sums.get(amount, 0) or 1)


@dataclass
class Counted:
    """The records of a tokenizer: of each source, and the sums of each group of documents in it."""

    tokenizer: MeasuredTokenizer
    sources: dict[str, Record] = field(default_factory=dict)
    groups: dict[str, list[Sums]] = field(default_factory=lambda: defaultdict(list))

    def add(self, source: str, record: Record) -> None:
        """Add the record of a group of documents."""
        self.sources.setdefault(source, Record(self.tokenizer.size)).add(record)
        self.groups[source].append(record.sums)

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
    for source, _, texts in sample.groups():
        for one in counted:
            one.add(source, record_of(one.tokenizer, texts))
    first, *others = counted
    against = [None, *(_against(first, other, sample) for other in others)]
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


def _against(first: Counted, other: Counted, sample: SampleText) -> Against:
    """Compare the first tokenizer with another one."""
    tokens = {
        name: (one.sums["tokens"], record.sums["tokens"])
        for name, one, record in (
            ("", first.whole, other.whole),
            *((source, first.sources[source], record) for source, record in other.sources.items()),
        )
    }
    [nsl] = AGAINST
    ratios = list[float]()
    differences: defaultdict[str, list[float]] = defaultdict(list)
    for mine, theirs in zip(_resampled(first, sample), _resampled(other, sample), strict=True):
        for name, value in mine.items():
            if name in theirs:
                differences[name].append(value - theirs[name])
        ratios.append(nsl.of((mine["tokens"], theirs["tokens"])) or 0)
    return Against(
        {name: ratio for name, pair in tokens.items() if (ratio := nsl.of(pair)) is not None},
        interval(ratios) if ratios else None,
        {name: interval(listed) for name, listed in differences.items() if len(listed) == _SAMPLES},
    )


def _resampled(counted: Counted, sample: SampleText) -> Iterator[dict[str, float]]:
    """Yield the numbers of documents that are drawn again, and of their languages; of few documents nothing."""
    most = max(map(len, counted.groups.values()), default=0)
    if most < _FEWEST_GROUPS:
        return
    whole: list[Sums] = [{} for _ in range(most)]
    for groups in counted.groups.values():
        for sums, of_source in zip(whole, groups, strict=False):
            add_to(sums, of_source)
    columns = _columns(whole)
    languages = {
        name: _columns([{one: sums.get(one, 0) for one in sample.of_cost} for sums in counted.groups[name]])
        for name in sample.languages
        if name in counted.sources
    }
    random = Random(0)  # noqa: S311 - a sample, not a secret
    for _ in range(_SAMPLES):
        times = Counter(random.choices(range(most), k=most))
        weights = [times[group] for group in range(most)]
        costs = {name: sample.cost(_weighted(of_language, weights)) for name, of_language in languages.items()}
        yield values(TEXT, Record(0, _weighted(columns, weights))) | (values(LANGUAGES, costs) if costs else {})


def _columns(groups: Sequence[Sums]) -> dict[str, list[float]]:
    """Return the amounts of each group by their names."""
    names = dict.fromkeys(name for sums in groups for name in sums)
    return {name: [sums.get(name, 0) for sums in groups] for name in names}


def _weighted(columns: Mapping[str, Sequence[float]], weights: Sequence[int]) -> Sums:
    return {name: sum(map(mul, weights, column)) for name, column in columns.items()}


def interval(drawn: Sequence[float]) -> Interval:
    """Return the limits of the middle 95 % of what bootstrap samples gave."""
    listed = sorted(drawn)
    return listed[_OUTSIDE], listed[-1 - _OUTSIDE]


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
