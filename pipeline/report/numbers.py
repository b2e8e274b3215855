"""The numbers of the report. report.json stores them under these names; `numbers_worker` computes them."""

from dataclasses import dataclass

MARKED_SIZES = tuple(1000 * 2**power for power in range(3, 9))  # 8,000 to 256,000
FEWEST_SOURCES = 3  # with fewer, no token is reported as one of a single source


@dataclass(frozen=True)
class TokenExample:
    """A token for people: its readable, shortened text and its full length in bytes."""

    id: int
    text: str
    bytes: int


@dataclass(frozen=True)
class TokenGroup:
    """Tokens of one kind: their number, and the first or longest of them."""

    count: int
    examples: tuple[TokenExample, ...]


@dataclass(frozen=True)
class Variants:
    """Tokens that differ only by case or a leading space. beyond_one: tokens saved if each group kept one."""

    groups: int
    tokens: int
    beyond_one: int
    largest: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class VocabularyNumbers:
    """The tokens except special ones. lengths: bytes -> tokens; scripts: most frequent first."""

    tokens: int
    bytes: int
    special_tokens: tuple[str, ...]
    lengths: dict[int, int]
    scripts: dict[str, int]
    longest: tuple[TokenExample, ...]
    variants: Variants
    partial: TokenGroup
    unreachable: TokenGroup
    urls: TokenGroup
    repeats: TokenGroup


@dataclass(frozen=True)
class SizePoint:
    """A vocabulary size on the training corpus. saved: share of the tokens at half this size that this size saves;
    None if half the size has no merges."""

    vocab_size: int
    tokens: int
    bytes_per_token: float
    saved: float | None


@dataclass(frozen=True)
class MergeNumbers:
    """curve: sizes from the bytes alone to all merges, evenly on a logarithmic scale. marked: `MARKED_SIZES` up to the
    last merge, and the size of the run. ranks: (rank from 1, count of the pair when it was merged)."""

    merges: int
    bytes: int
    curve: tuple[SizePoint, ...]
    marked: tuple[SizePoint, ...]
    ranks: tuple[tuple[int, int], ...]


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


@dataclass(frozen=True)
class Sample:
    """A sample as each tokenizer cuts it, this one first. unused: ids of this one that do not occur in it."""

    held_out: bool
    description: str
    bytes: int
    texts: int
    tokenizers: tuple[TokenizerMeasures, ...]
    unused: int
    single_source: TokenGroup


@dataclass(frozen=True)
class SentenceTokens:
    """A sentence cut by this tokenizer. tokens: ids with their readable text; tokens that share a character are one
    entry. counts: number of tokens for each tokenizer."""

    language: str
    text: str
    tokens: tuple[tuple[tuple[int, ...], str], ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Numbers:
    """All numbers. tokenizers: names and vocabulary sizes, this one first. sample: None if there was no text."""

    tokenizers: tuple[tuple[str, int], ...]
    vocabulary: VocabularyNumbers
    merged: MergeNumbers
    sample: Sample | None
    sentences: tuple[SentenceTokens, ...]
    machine: dict[str, str]
