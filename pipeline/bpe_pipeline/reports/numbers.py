"""The numbers of a report as values: what report.json stores, and what text, page and card show."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bpe_pipeline.corpus.skipped_or_altered import KindTally
from bpe_pipeline.reports.definitions import reference_of
from bpe_pipeline.reports.measure import TokenizerMeasures
from bpe_pipeline.reports.result import NOT_STORED
from bpe_pipeline.reports.tokens import TokenGroup, VocabularyNumbers

MARKED_SIZES = tuple(1000 * 2**power for power in range(9))  # 1,000 to 256,000
SENTENCES: dict[str, str] = json.loads(Path(__file__).with_name("sentences.json").read_bytes())
REFERENCES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("references.json").read_bytes())
"""Well-known tokenizers: their tokens of these sentences."""
PARALLEL = tuple(name for name in SENTENCES if name not in ("Python", "Emoji and numbers"))  # one text in each language


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
    last merge, and the size of the run. ranks: (rank from 1, count of the pair when it was merged). rare_merges:
    the share that occurs fewer than 20 times in the text; None if only weighted counts are known."""

    merges: int
    bytes: int
    curve: tuple[SizePoint, ...]
    marked: tuple[SizePoint, ...]
    ranks: tuple[tuple[int, int], ...]
    rare_merges: float | None = None


@dataclass(frozen=True)
class Sample:
    """A sample as each tokenizer cuts it, this one first. parallel: the sources that are the same text in different
    languages. curve: of this tokenizer (vocabulary size, bytes per token) at the marked sizes. first_stage: tokens of
    each source before superwords, if there are any. losses: what was altered in it; rewritten: of a tokenizer that puts
    text into NFC, how many lines of each script that changes, and of how many."""

    held_out: bool
    description: str
    bytes: int
    texts: int
    tokenizers: tuple[TokenizerMeasures, ...]
    single_source: TokenGroup
    parallel: tuple[str, ...] = ()
    curve: tuple[tuple[int, float], ...] = ()
    first_stage: dict[str, int] = field(default_factory=dict)
    losses: dict[str, KindTally] = field(default_factory=dict)
    rewritten: dict[str, tuple[int, int]] = field(default_factory=dict)


Cut = tuple[tuple[tuple[int, ...], str], ...]


@dataclass(frozen=True)
class SentenceTokens:
    """A sentence. cuts: of each tokenizer ids and text; tokens that share a character are one entry. counts: of each
    tokenizer, then of each reference. fallback: of each tokenizer, the share of tokens that are one byte of a longer
    character."""

    language: str
    text: str
    cuts: tuple[Cut, ...]
    counts: tuple[int, ...]
    fallback: tuple[float, ...]


@dataclass(frozen=True)
class Shape:
    """Tokens of a vocabulary by bytes and by script."""

    lengths: dict[int, int]
    scripts: dict[str, int]


@dataclass(frozen=True)
class Reference:
    """A well-known tokenizer of which only its tokens of the sentences are known. source: of its vocabulary."""

    name: str
    vocab_size: int
    source: str


@dataclass(frozen=True)
class Numbers:
    """All numbers. tokenizers: names and vocabulary sizes, this one first, as in shapes. sample: None without text.
    ginis: over the languages of the sentences, of each tokenizer, then of each reference. listing: see
    `listing`. unread: files of the sample that gave no text.
    """

    tokenizers: tuple[tuple[str, int], ...]
    vocabulary: VocabularyNumbers
    shapes: tuple[Shape, ...]
    merged: MergeNumbers
    sample: Sample | None
    references: tuple[Reference, ...]
    sentences: tuple[SentenceTokens, ...]
    ginis: tuple[float | None, ...]
    machine: dict[str, str]
    listing: bytes = field(default=b"", metadata=NOT_STORED)
    unread: tuple[str, ...] = field(default=(), metadata=NOT_STORED)


@dataclass(frozen=True)
class SameText:
    """Tokens of the same text by language, of each of the tokenizers. reference: the language to compare with; origin:
    of the text. ginis: of each tokenizer over the languages."""

    tokenizers: tuple[str, ...]
    counts: dict[str, tuple[int, ...]]
    reference: str
    origin: str
    ginis: tuple[float | None, ...]


def same_text(numbers: Numbers) -> SameText:
    """Return the tokens of the held-out parallel files, or without any of the built-in sentences."""
    names = tuple(name for name, _ in numbers.tokenizers)
    if (sample := numbers.sample) is not None and sample.parallel:
        tokens_of = [{source.name: source.tokens for source in tokenizer.sources} for tokenizer in sample.tokenizers]
        counts = {language: tuple(one.get(language, 0) for one in tokens_of) for language in sample.parallel}
        origin = f"Held-out parallel files in {len(counts)} languages, given as the same text. {sample.description}"
        ginis = tuple(tokenizer.languages.get("gini") for tokenizer in sample.tokenizers)
        return SameText(names, counts, reference_of(counts), origin, ginis)
    names += tuple(f"{one.name} (reference)" for one in numbers.references)
    counts = {sentence.language: sentence.counts for sentence in numbers.sentences if sentence.language in PARALLEL}
    origin = f"The report's own sentence in {len(counts)} languages: a hint, no measurement."
    return SameText(names, counts, "English", origin, numbers.ginis)
