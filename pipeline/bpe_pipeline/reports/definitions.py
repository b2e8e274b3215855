"""The numbers that say how a tokenizer cuts texts: each is defined here once, for tables, JSON and pages.

Numbers of a text are derived from a `Record`, those of languages from their costs (tokens a line of the same text, or a
character of other texts), that of two tokenizers from their tokens.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.reports.formulas import gini, mean_digit_f1, renyi_efficiency
from bpe_pipeline.reports.numbers import reference_of
from bpe_pipeline.reports.record import Record
from bpe_pipeline.reports.tokens import UNSPACED


@dataclass(frozen=True)
class Number:
    """A number. name: in JSON; title: over columns; meaning: a sentence or two.

    of: how it is derived, None if it cannot be; better: 1 if more is better, -1 if less is, 0 if neither; form: how it
    is shown; source: where it is from.
    """

    name: str
    title: str
    meaning: str
    of: Callable[[Any], float | None]
    better: int = 0
    form: str = ",.3f"
    source: str = ""


def values(numbers: Iterable[Number], counted: object) -> dict[str, float]:
    """Return the numbers that can be derived of what was counted, by name."""
    return {number.name: value for number in numbers if (value := number.of(counted)) is not None}


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _rest(part: float, whole: float) -> float | None:
    return 1 - part / whole if whole else None


def _mean_of_words(amount: Callable[[int], int]) -> Callable[[Record], float | None]:
    """Return the mean of an amount of the tokens of a word; None if most words are in scripts without spaces."""

    def mean(record: Record) -> float | None:
        words, total = record.words.items(), record.words.total()
        if 2 * sum(count for (script, *_), count in words if script in UNSPACED) > total:
            return None
        return _ratio(sum(count * amount(tokens) for (*_, tokens), count in words), total)

    return mean


def _worst(costs: Mapping[str, float]) -> float | None:
    return _ratio(max(costs.values()), costs[reference_of(costs)])


_RUST = "Rust et al. 2021, arXiv:2012.15613"

TEXT = (
    Number(
        "bytes_per_token",
        "bytes per token",
        "Bytes that are not lost, over tokens.",
        lambda record: _ratio(record.sums["bytes"] - record.sums["lost"], record.sums["tokens"]),
        1,
        source="TokEval `compression_rate`",
    ),
    Number(
        "bytes",
        "bytes",
        "Bytes of the text in UTF-8, without special tokens; in NFC for all tokenizers if one of them puts it there.",
        lambda record: record.sums["bytes"],
        form=",d",
    ),
    Number(
        "lost",
        "bytes lost",
        "Bytes of the text, in NFC that decoding does not return.",
        lambda record: record.sums["lost"],
        -1,
        ",d",
    ),
    Number("tokens", "tokens", "Tokens of the text.", lambda record: record.sums["tokens"], -1, ",d"),
    Number(
        "characters_per_token",
        "characters per token",
        "Characters (code points) over tokens.",
        lambda record: _ratio(record.sums["characters"], record.sums["tokens"]),
        1,
        source="TokEval `compression_rate` of characters",
    ),
    Number(
        "tokens_per_word",
        "tokens per word",
        "Fertility: tokens that overlap a word, a run of letters, marks and digits of Unicode; the mean over words. "
        "None if most words are in scripts written without spaces, as Chinese is.",
        _mean_of_words(int),
        -1,
        source=_RUST,
    ),
    Number(
        "whole",
        "words in one token",
        "The share of words that no token ends in; none as of tokens per word.",
        _mean_of_words(lambda tokens: tokens == 1),
        1,
        ".1%",
        _RUST,
    ),
    Number(
        "vocabulary_used",
        "vocabulary used",
        "The share of the vocabulary that occurs in the text.",
        lambda record: _ratio(len(record.used), record.tokenizer.size),
        1,
        ".1%",
        "TokEval `vocabulary_utilization`",
    ),
    Number(
        "renyi_2_5",
        "Rényi efficiency",
        "How evenly the tokens that occur are used: the Rényi entropy of order 2.5 of their distribution, over the "
        "logarithm of their number.",
        lambda record: renyi_efficiency(record.used.values(), 2.5),
        1,
        source="Zouhar et al. 2023, arXiv:2306.16842; TokEval `renyi_efficiency`",
    ),
    Number(
        "digit_f1",
        "consistency of digits",
        "F1 of the splits inside a number (digits 0 to 9) against the usual ones in numbers of as many digits; the "
        "mean over numbers. 1: always split in one way.",
        lambda record: mean_digit_f1(record.numbers),
        1,
        source="Singh and Strouse 2024, arXiv:2402.14903",
    ),
    Number(
        "integrity",
        "complete characters",
        "The share of tokens that are complete UTF-8 characters.",
        lambda record: _rest(record.broken, record.sums["tokens"]),
        1,
        ".1%",
        "TokEval `utf8_token_integrity`",
    ),
    Number(
        "round_trip",
        "lossless lines",
        "The share of lines, not blank, that decoding returns as they were, or in NFC.",
        lambda record: _rest(record.sums["changed_lines"], record.sums["lines"]),
        1,
        ".1%",
        "TokEval `reconstruction_fidelity`",
    ),
)
"""Of a text: derived from a `Record`."""

LANGUAGES = (
    Number(
        "gini",
        "Gini over the languages",
        "How unequal the costs of the languages are: 0 if all are equal.",
        lambda costs: gini(costs.values()),
        -1,
        source="TokEval `tokenizer_fairness_gini`",
    ),
    Number(
        "worst",
        "the worst language, times English",
        "The highest cost of a language over that of English, or else of the first.",
        _worst,
        -1,
        source="Petrov et al. 2023, arXiv:2305.15425",
    ),
)
"""Of several languages: derived from their costs by name."""

AGAINST = Number(
    "nsl",
    "normalized length",
    "Tokens of this tokenizer over those of another one, for the same text.",
    lambda pair: _ratio(*pair),
    -1,
    source="Dagan et al. 2024, arXiv:2402.01035",
)
"""Of two tokenizers: derived from their tokens."""

NUMBERS = {number.name: number for number in (*TEXT, *LANGUAGES, AGAINST)}
