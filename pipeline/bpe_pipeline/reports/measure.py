"""Measure how tokenizers cut a sample: all of it, by source, and how they compare.

The numbers are those of `definitions.py`.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.reports.definitions import AGAINST, LANGUAGES, TEXT, values
from bpe_pipeline.reports.numbers import TextMeasures, TokenizerMeasures
from bpe_pipeline.reports.record import MarkedText, MeasuredTokenizer, Record
from bpe_pipeline.reports.tokens import scripts_of

_MOST_SOURCES = 12
_TOP, _OTHERS = "(not in a directory)", "(others)"


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

    def cost(self, record: Record) -> float:
        """Return the cost of a language: its tokens by lines of the same text, or by characters."""
        return record.sums["tokens"] / (record.sums["lines" if self.same else "characters"] or 1)


Records = Mapping[str, Record]
"""What was counted by source, and of all of them as ""."""


def count(named: Sequence[tuple[str, MeasuredTokenizer]], sample: SampleText) -> list[Records]:
    """Count how each tokenizer cuts a sample, in one pass over it."""
    counted = [defaultdict[str, Record](partial(Record, tokenizer)) for _, tokenizer in named]
    for source, text in sample.texts:
        marked = MarkedText(text)
        for records in counted:
            records[source].count(marked)
    for records in counted:
        sources, whole = [*records.values()], records[""]
        for record in sources:
            whole.add(record)
    return [*counted]


def measure(
    named: Sequence[tuple[str, MeasuredTokenizer]], sample: SampleText, counted: Sequence[Records] = ()
) -> tuple[TokenizerMeasures, ...]:
    """Measure how tokenizers cut a sample. named: the first one is compared with the others; counted: see `count`."""
    first, *others = counted or count(named, sample)
    pairs = zip(named, (first, *others), (None, *others), strict=True)
    return tuple(_measures(name, records, first if other else None, sample) for (name, _), records, other in pairs)


def _measures(name: str, records: Records, first: Records | None, sample: SampleText) -> TokenizerMeasures:
    """Return the measures of a tokenizer. first: records of that which is compared with it; None: it is the first."""
    costs = {language: sample.cost(records[language]) for language in sample.languages if language in records}
    sources = (_text_measures(source, record) for source, record in records.items() if source)
    return TokenizerMeasures(
        whole=_text_measures(name, records[""]),
        sources=tuple(sorted(sources, key=lambda text: -text.bytes)),
        scripts=dict(records[""].scripts.most_common()),
        languages=values(LANGUAGES, costs) if costs else {},
        costs=costs,
        against=None if first is None else _against(first, records),
    )


def _text_measures(name: str, record: Record) -> TextMeasures:
    return TextMeasures(name, record.sums["bytes"], record.sums["tokens"], values(TEXT, record))


def _against(first: Records, other: Records) -> dict[str, float]:
    """Return the normalized lengths of the first tokenizer over another one."""
    pairs = ((name, (first[name].sums["tokens"], record.sums["tokens"])) for name, record in other.items())
    return {name: ratio for name, pair in pairs if (ratio := AGAINST.of(pair)) is not None}


def source_names(paths: Sequence[str]) -> dict[str, str]:
    """Name the source of each path, with at most 12 different names.

    Up to 12 files are named by their paths below their common directory; more files by the first directory below it, or
    in one directory by the start of their names, up to the first digit; the rarest of these together.
    """
    split = {path: path.split("/") for path in paths}
    parents = [parts[:-1] for parts in split.values()]
    common = len(os.path.commonprefix(parents))  # noqa: RUF071 - of lists, component by component
    if len(split) <= _MOST_SOURCES:
        return {path: "/".join(parts[common:]) for path, parts in split.items()}
    names = {path: parts[common] if len(parts) > common + 1 else _TOP for path, parts in split.items()}
    if set(names.values()) == {_TOP}:
        names = {path: re.split(r"[\d.]", parts[-1])[0].rstrip("-_ ") or parts[-1] for path, parts in split.items()}
    if len(set(names.values())) == 1:
        names = {path: parts[-1] for path, parts in split.items()}
    several = Counter(names[path] for path in paths)
    most = [name for name, _ in several.most_common(_MOST_SOURCES - (len(several) > _MOST_SOURCES))]
    return {path: name if name in most else _OTHERS for path, name in names.items()}
