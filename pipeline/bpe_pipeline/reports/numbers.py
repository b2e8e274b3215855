"""The numbers of a report as values: what report.json stores, and what text, page and card show."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bpe_pipeline.corpus.skipped_or_altered import KindTally
from bpe_pipeline.reports.result import NOT_STORED
from bpe_pipeline.reports.tokens import VocabularyNumbers

MARKED_SIZES = tuple(1000 * 2**power for power in range(9))  # 1,000 to 256,000
SENTENCES: dict[str, str] = json.loads(Path(__file__).with_name("sentences.json").read_bytes())
REFERENCES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("references.json").read_bytes())
"""Well-known tokenizers: their tokens of these sentences."""
PARALLEL = tuple(name for name in SENTENCES if name not in ("Python", "Emoji and numbers"))  # one text in each language


def is_english(name: str) -> bool:
    """Return whether a name stands for English.

    >>> [is_english(one) for one in ("en", "eng_Latn", "English", "enm", "sw")]
    [True, True, True, False, False]
    """
    return re.split("[-_.]", name.lower())[0] in ("en", "eng", "english")


def reference_of(languages: Iterable[str]) -> str:
    """Return the language that others are compared with: English, else the first one."""
    listed = list(languages)
    return next(filter(is_english, listed), listed[0])


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
class SizePoint:
    """A size on the training corpus. saved: of the tokens at half this size; None if that size is too small."""

    vocab_size: int
    tokens: int
    bytes_per_token: float
    saved: float | None


@dataclass(frozen=True)
class MergeNumbers:
    """curve: sizes from the bytes alone to all merges, evenly on a logarithmic scale. marked: `MARKED_SIZES` up to the
    last merge, and the size of the run.
    rare_merges: the share that occurs fewer than 20 times in the text; None if only weighted counts are known."""

    merges: int
    bytes: int
    curve: tuple[SizePoint, ...]
    marked: tuple[SizePoint, ...]
    rare_merges: float | None = None


@dataclass(frozen=True)
class Sample:
    """A sample as each tokenizer cuts it, this one first. parallel: the sources that are the same text in different
    languages. curve: of this tokenizer (vocabulary size, bytes per token) at the marked sizes.
    losses: what was altered in it; rewritten: of a tokenizer that puts
    text into NFC, how many lines of each script that changes, and of how many."""

    held_out: bool
    description: str
    bytes: int
    texts: int
    tokenizers: tuple[TokenizerMeasures, ...]
    parallel: tuple[str, ...] = ()
    curve: tuple[tuple[int, float], ...] = ()
    losses: dict[str, KindTally] = field(default_factory=dict)
    rewritten: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class SentenceTokens:
    """Tokens of one of the report's own sentences: of each tokenizer, then of each reference."""

    language: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Reference:
    """A well-known tokenizer of which only its tokens of the sentences are known. source: of its vocabulary."""

    name: str
    vocab_size: int
    source: str


@dataclass(frozen=True)
class Numbers:
    """All numbers. tokenizers: names and vocabulary sizes, this one first. sample: None without text. scripts: how
    many tokens of this one are of each script.
    ginis: over the languages of the sentences, of each tokenizer, then of each reference. listing: see
    `listing`. unread: files of the sample that gave no text.
    """

    tokenizers: tuple[tuple[str, int], ...]
    vocabulary: VocabularyNumbers
    scripts: dict[str, int]
    merged: MergeNumbers
    sample: Sample | None
    references: tuple[Reference, ...]
    sentences: tuple[SentenceTokens, ...]
    ginis: tuple[float | None, ...]
    machine: dict[str, str]
    listing: bytes = field(default=b"", metadata=NOT_STORED)
    unread: tuple[str, ...] = field(default=(), metadata=NOT_STORED)


@dataclass(frozen=True)
class LanguageCosts:
    """What each language costs with each of the tokenizers: tokens of the same text, or tokens a character.

    reference: the language to compare with; unit, origin: of the costs; ginis: of each tokenizer over the languages.
    """

    tokenizers: tuple[str, ...]
    costs: dict[str, tuple[float, ...]]
    reference: str
    unit: str
    origin: str
    ginis: tuple[float | None, ...]

    def times(self, language: str, at: int = 0) -> float:
        """Return the cost of a language over that of the reference, with one of the tokenizers."""
        return self.costs[language][at] / (self.costs[self.reference][at] or 1)


def language_costs(numbers: Numbers) -> LanguageCosts:
    """Return the costs of the languages of held-out files, or without any of the built-in sentences."""
    names = tuple(name for name, _ in numbers.tokenizers)
    if (sample := numbers.sample) is not None and (listed := sample.tokenizers[0].costs):
        by_source = [{text.name: text.tokens for text in one.sources} for one in sample.tokenizers]
        each = by_source if sample.parallel else [one.costs for one in sample.tokenizers]
        costs = {language: tuple(one.get(language, 0) for one in each) for language in listed}
        what = "given as the same text" if sample.parallel else "not compared as translations"
        origin = f"Held-out files in {len(costs)} languages, {what}. {sample.description}"
        unit = "tokens" if sample.parallel else "tokens per character"
        ginis = tuple(one.languages.get("gini") for one in sample.tokenizers)
        return LanguageCosts(names, costs, reference_of(costs), unit, origin, ginis)
    names += tuple(f"{one.name} (reference)" for one in numbers.references)
    sentences = {one.language: one.counts for one in numbers.sentences if one.language in PARALLEL}
    origin = f"The report's own sentence in {len(sentences)} languages: a hint, no measurement."
    return LanguageCosts(names, {**sentences}, "English", "tokens", origin, numbers.ginis)
