"""The numbers that say how a tokenizer cuts texts: each is defined here once, for tables, JSON and pages.

Numbers of a text are derived from a `Record`, those of languages from their costs (tokens a line of the same text, or a
character of other texts), that of two tokenizers from their tokens.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.reports.formulas import gini, mean_digit_f1, renyi_efficiency
from bpe_pipeline.reports.record import Record


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


def _amount(name: str) -> Callable[[Record], float | None]:
    return lambda record: record.sums.get(name)


def _ratio(part: str, whole: str) -> Callable[[Record], float | None]:
    """Return what divides one sum by another; None if either was not counted."""

    def ratio(record: Record) -> float | None:
        counted = record.sums.get(part)
        return None if counted is None or not record.sums.get(whole) else counted / record.sums[whole]

    return ratio


def _rest(part: str, whole: str) -> Callable[[Record], float | None]:
    """Return what divides all but a part of a sum by the sum."""
    share = _ratio(part, whole)
    return lambda record: None if (found := share(record)) is None else 1 - found


def _of_words(part: str) -> Callable[[Record], float | None]:
    """Return the ratio of a sum to the words; None if most words are in scripts that are written without spaces."""
    ratio = _ratio(part, "words")
    return lambda record: None if 2 * record.sums.get("unspaced", 0) > record.sums.get("words", 0) else ratio(record)


def _bytes_per_token(record: Record) -> float | None:
    tokens, kept = record.sums.get("tokens"), record.sums.get("bytes", 0) - record.sums.get("lost", 0)
    return kept / tokens if tokens else None


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


def _worst(costs: Mapping[str, float]) -> float | None:
    return max(costs.values()) / reference if costs and (reference := costs[reference_of(costs)]) else None


_RUST = "Rust et al. 2021, arXiv:2012.15613"

TEXT = (
    Number(
        "bytes_per_token",
        "bytes per token",
        "Bytes that are not lost, over tokens.",
        _bytes_per_token,
        1,
        source="TokEval `compression_rate`",
    ),
    Number(
        "bytes",
        "bytes",
        "Bytes of the text in UTF-8, without special tokens; in NFC for all tokenizers if one of them puts it there.",
        _amount("bytes"),
        form=",d",
    ),
    Number("lost", "bytes lost", "Bytes of the text, in NFC that decoding does not return.", _amount("lost"), -1, ",d"),
    Number("tokens", "tokens", "Tokens of the text.", _amount("tokens"), -1, ",d"),
    Number(
        "characters_per_token",
        "characters per token",
        "Characters (code points) over tokens.",
        _ratio("characters", "tokens"),
        1,
        source="TokEval `compression_rate` of characters",
    ),
    Number(
        "tokens_per_word",
        "tokens per word",
        "Fertility: tokens that overlap a word, a run of letters, marks and digits of Unicode; the mean over words. "
        "None if most words are in scripts written without spaces, as Chinese is.",
        _of_words("overlaps"),
        -1,
        source=_RUST,
    ),
    Number(
        "whole",
        "words in one token",
        "The share of words that no token ends in; none as of tokens per word.",
        _of_words("whole"),
        1,
        ".1%",
        _RUST,
    ),
    Number(
        "vocabulary_used",
        "vocabulary used",
        "The share of the vocabulary that occurs in the text.",
        lambda record: len(record.used) / record.size if record.used else None,
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
        _rest("broken", "tokens"),
        1,
        ".1%",
        "TokEval `utf8_token_integrity`",
    ),
    Number(
        "round_trip",
        "lossless lines",
        "The share of lines, not blank, that decoding returns as they were, or in NFC.",
        _rest("changed_lines", "lines"),
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
    lambda pair: pair[0] / pair[1] if pair[1] else None,
    -1,
    source="Dagan et al. 2024, arXiv:2402.01035",
)
"""Of two tokenizers: derived from their tokens."""

NUMBERS = {number.name: number for number in (*TEXT, *LANGUAGES, AGAINST)}
