"""Measure how tokenizers cut a sample: all of it, by source, and how they compare.

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
from bpe_pipeline.reports.definitions import AGAINST, LANGUAGES, TEXT, values
from bpe_pipeline.reports.record import MarkedText, MeasuredTokenizer, Record, record_of
from bpe_pipeline.reports.tokens import scripts_of

_MOST_SOURCES = 12
_TOP, _OTHERS = "(not in a directory)", "(others)"
_BATCH = 1024  # documents that are measured at once


@dataclass(frozen=True)
class TextMeasures:
    """How a tokenizer cuts some text. numbers: those of `definitions.TEXT` that there are."""

    name: str
    bytes: int
    tokens: int
    numbers: Mapping[str, int | float]


@dataclass(frozen=True)
class TokenizerMeasures:
    """How a tokenizer cuts a sample: all of it, and by source. languages: numbers of them; costs: of each language.

    scripts: bytes of the words of each script. against: the normalized length of the first tokenizer over this one, in
    all (the key "") and by source; None of the first one.
    """

    whole: TextMeasures
    sources: tuple[TextMeasures, ...]
    scripts: dict[str, int]
    languages: Mapping[str, int | float] = field(default_factory=dict)
    costs: Mapping[str, int | float] = field(default_factory=dict)
    against: Mapping[str, int | float] | None = None


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
        lines = [line for _, text in self.texts for line in text.split("\n") if line.strip()]
        changed, of_all = scripts_of(line for line in lines if nfc(line) != line), scripts_of(lines)
        return {script: (count, of_all[script]) for script, count in changed.items()}

    def batches(self) -> Iterator[tuple[str, list[MarkedText]]]:
        """Yield a source and some of its texts: what is found in them is freed with the batch."""
        for source, listed in groupby(self.texts, key=itemgetter(0)):
            while texts := [MarkedText(text) for _, text in islice(listed, _BATCH)]:
                yield source, texts

    def cost(self, sums: Mapping[str, float]) -> float:
        """Return the cost of a language: its tokens by lines of the same text, or by characters."""
        return sums.get("tokens", 0) / (sums.get("lines" if self.same else "characters", 0) or 1)


def measure(named: Sequence[tuple[str, MeasuredTokenizer]], sample: SampleText) -> tuple[TokenizerMeasures, ...]:
    """Measure how tokenizers cut a sample, in one pass over it. named: the first one is compared with the others."""
    counted = [(tokenizer, dict[str, Record]()) for _, tokenizer in named]  # by source, and all of it as ""
    for source, texts in sample.batches():
        for tokenizer, records in counted:
            records.setdefault(source, Record(tokenizer.size)).add(record_of(tokenizer, texts))
    for tokenizer, records in counted:
        whole = Record(tokenizer.size)
        for record in records.values():
            whole.add(record)
        records[""] = whole
    (_, first), names = counted[0], [name for name, _ in named]
    return tuple(
        _measures(name, records, None if records is first else _against(first, records), sample)
        for name, (_, records) in zip(names, counted, strict=True)
    )


def _measures(
    name: str, records: Mapping[str, Record], against: dict[str, float] | None, sample: SampleText
) -> TokenizerMeasures:
    costs = {language: sample.cost(records[language].sums) for language in sample.languages if language in records}
    *sources, whole = (_text_measures(source or name, record) for source, record in records.items())
    return TokenizerMeasures(
        whole=whole,
        sources=tuple(sorted(sources, key=lambda text: -text.bytes)),
        scripts=dict(records[""].scripts.most_common()),
        languages=values(LANGUAGES, costs) if costs else {},
        costs=costs,
        against=against,
    )


def _text_measures(name: str, record: Record) -> TextMeasures:
    bytes_, tokens = (int(record.sums.get(one, 0)) for one in ("bytes", "tokens"))
    return TextMeasures(name, bytes_, tokens, values(TEXT, record))


def _against(first: Mapping[str, Record], other: Mapping[str, Record]) -> dict[str, float]:
    """Return the normalized lengths of the first tokenizer over another one."""
    pairs = ((name, [by[name].sums.get("tokens", 0) for by in (first, other)]) for name in other)
    return {name: ratio for name, pair in pairs if (ratio := AGAINST.of(pair)) is not None}


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
