"""The numbers that say how a tokenizer cuts texts: each is defined here once, for tables, JSON and pages.

Numbers of a text are derived from a `Record`, those of languages from their costs (tokens a line of the same text, or a
character of other texts), those of a vocabulary from the bytes of its tokens.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.reports.formulas import gini, mean_digit_f1, number_cuts, renyi_efficiency
from bpe_pipeline.reports.record import Record
from bpe_pipeline.reports.tokens import is_long, is_long_signs


@dataclass(frozen=True)
class Number:
    """A number. name: in JSON; title: over columns; meaning: a sentence or two.

    of: how it is derived, None if it cannot be; better: 1 if more is better, -1 if less is, 0 if neither; form: how it
    is shown; source: where it is from. brief: shown in narrow tables, too.
    """

    name: str
    title: str
    meaning: str
    of: Callable[[Any], float | None]
    better: int = 0
    form: str = ",.3f"
    source: str = ""
    brief: bool = False

    def shown(self, value: float) -> str:
        """Return a value as text."""
        counted = self.form == ",d" and float(value).is_integer()
        return f"{value:,.0f}" if counted else format(value, self.form.replace("d", "g"))


def values(numbers: Iterable[Number], counted: object) -> dict[str, float]:
    """Return the numbers that can be derived of what was counted, by name."""
    return {number.name: value for number in numbers if (value := number.of(counted)) is not None}


def _amount(name: str) -> Callable[[Record], float | None]:
    return lambda record: record.sums.get(name)


def _ratio(part: str, whole: str, times: int = 1) -> Callable[[Record], float | None]:
    """Return what divides one sum by another; None if either was not counted."""

    def ratio(record: Record) -> float | None:
        counted = record.sums.get(part)
        return None if counted is None or not record.sums.get(whole) else times * counted / record.sums[whole]

    return ratio


def _rest(part: str, whole: str) -> Callable[[Record], float | None]:
    """Return what divides all but a part of a sum by the sum."""
    share = _ratio(part, whole)
    return lambda record: None if (found := share(record)) is None else 1 - found


def _renyi(order: float) -> Callable[[Record], float | None]:
    return lambda record: renyi_efficiency(record.used.values(), order)


def _bytes_per_token(record: Record) -> float | None:
    tokens, kept = record.sums.get("tokens"), record.sums.get("bytes", 0) - record.sums.get("lost", 0)
    return kept / tokens if tokens else None


def _most_ways(record: Record) -> float | None:
    return max((cuts.ways for cuts in number_cuts(record.numbers).values()), default=None)


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


def _long_signs(vocab: Mapping[int, bytes]) -> int:
    return sum(map(is_long_signs, _texts(vocab)))


def _texts(vocab: Mapping[int, bytes]) -> Iterable[str]:
    return (token.decode(errors="replace") for token in vocab.values())


_RUST = "Rust et al. 2021, arXiv:2012.15613"
_ZOUHAR = "Zouhar et al. 2023, arXiv:2306.16842; TokEval `renyi_efficiency`"
_SINGH = "Singh and Strouse 2024, arXiv:2402.14903"
_UTF8 = "TokEval `utf8_token_integrity`"

TEXT = (
    Number(
        "bytes",
        "bytes",
        "Bytes of the text in UTF-8, without special tokens; in NFC for all tokenizers if one of them puts it there.",
        _amount("bytes"),
        form=",d",
        brief=True,
    ),
    Number(
        "lost",
        "bytes lost",
        "Bytes of the text, in NFC, that decoding does not return.",
        _amount("lost"),
        -1,
        ",d",
        brief=True,
    ),
    Number("tokens", "tokens", "Tokens of the text.", _amount("tokens"), -1, ",d", brief=True),
    Number(
        "lines",
        "lines",
        "Lines that are not blank.",
        _amount("lines"),
        form=",d",
    ),
    Number(
        "bytes_per_token",
        "bytes per token",
        "Bytes that are not lost, over tokens.",
        _bytes_per_token,
        1,
        source="TokEval `compression_rate`",
        brief=True,
    ),
    Number(
        "characters_per_token",
        "characters per token",
        "Characters (code points) over tokens.",
        _ratio("characters", "tokens"),
        1,
        source="TokEval `compression_rate` of characters",
        brief=True,
    ),
    Number(
        "tokens_per_word",
        "tokens per word",
        "Fertility: tokens that overlap a word, a run of letters, marks and digits; the mean over words.",
        _ratio("overlaps", "words"),
        -1,
        source=_RUST,
        brief=True,
    ),
    Number(
        "whole",
        "words in one token",
        "The share of words that no token ends in.",
        _ratio("whole", "words"),
        1,
        ".1%",
        _RUST,
        brief=True,
    ),
    Number(
        "tokens_per_line",
        "tokens per line",
        "Tokens over lines that are not blank.",
        _ratio("tokens", "lines"),
        -1,
        source="TokEval `avg_tokens_per_line`",
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
    *(
        Number(
            f"renyi_{order:g}".replace(".", "_"),
            f"Rényi efficiency, order {order:g}",
            "How evenly the tokens that occur are used: the Rényi entropy of this order of their distribution, over "
            "the logarithm of their number."
            if order == 1
            else "As `renyi_1`, of this order.",
            _renyi(order),
            1,
            source=_ZOUHAR if order == 1 else "",
            brief=order == 2.5,
        )
        for order in (1, 2, 2.5, 3)
    ),
    Number(
        "digit_f1",
        "digit F1 (consistency)",
        "F1 of the splits inside a number (digits 0 to 9) against the usual ones in numbers of as many digits; the "
        "mean over numbers. 1: always split in one way.",
        lambda record: mean_digit_f1(record.numbers),
        1,
        source=_SINGH,
        brief=True,
    ),
    Number(
        "digit_ways",
        "ways to split numbers",
        "In how many ways numbers of as many digits are split, at most. `digits` has all.",
        _most_ways,
        -1,
        ",d",
        "TokEval `digit_split_variability`",
    ),
    Number(
        "integrity",
        "complete characters",
        "The share of tokens that are complete UTF-8 characters.",
        _rest("broken", "tokens"),
        1,
        ".1%",
        _UTF8,
        brief=True,
    ),
    Number(
        "fallback",
        "single bytes",
        "The share of tokens that are one byte of a longer character.",
        _ratio("alone", "tokens"),
        -1,
        ".2%",
        brief=True,
    ),
    Number(
        "crossing",
        "tokens across characters",
        "The share of tokens with a part of a character and bytes of another; a byte that continues a character "
        "without its start counts as another.",
        _ratio("crosses", "tokens"),
        -1,
        ".2%",
        _UTF8,
    ),
    Number(
        "split",
        "characters split, per thousand",
        "Of a thousand characters of several bytes, those in several tokens.",
        _ratio("opens", "long_characters", 1000),
        -1,
        source="TokEval `utf8_char_split`",
    ),
    Number(
        "round_trip",
        "lines that come back",
        "The share of lines, not blank, that decoding returns as they were, or in NFC.",
        _rest("changed_lines", "lines"),
        1,
        ".1%",
        "TokEval `reconstruction_fidelity`",
        brief=True,
    ),
    Number(
        "names_whole",
        "names in one token",
        "In code, the share of names (a letter or `_`, then letters, digits and `_`; keywords, too) in one token.",
        _ratio("names_whole", "names"),
        1,
        ".1%",
    ),
    Number(
        "operators_alone",
        "operators alone",
        "In code, the share of operators whose tokens have nothing else, but for one space in front.",
        _ratio("operators_alone", "operators"),
        1,
        ".1%",
        "TokEval `operator_isolation_rate`",
    ),
    Number(
        "indentation",
        "tokens of indentation",
        "In code, the tokens that overlap the white space in front of a line; the mean over such lines.",
        _ratio("indentation_tokens", "indentations"),
        -1,
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

VOCABULARY = (
    Number(
        "long_signs",
        "tokens of eight signs",
        "Tokens of eight or more signs (punctuation and symbols) without a letter, mark or digit.",
        _long_signs,
        -1,
        ",d",
    ),
    Number(
        "long_tokens",
        "tokens over 64 characters",
        "Tokens of more than 64 characters.",
        lambda vocab: sum(map(is_long, _texts(vocab))),
        -1,
        ",d",
        "TokEval's sanity check",
    ),
)
"""Of a vocabulary: derived from the bytes of its tokens by id."""

AGAINST = (
    Number(
        "nsl",
        "normalized sequence length",
        "Tokens of this tokenizer over those of another one, for the same text.",
        lambda pair: pair[0] / pair[1] if pair[1] else None,
        -1,
        source="Dagan et al. 2024, arXiv:2402.01035",
    ),
)
"""Of two tokenizers: derived from their tokens."""

NUMBERS = {number.name: number for number in (*TEXT, *LANGUAGES, *VOCABULARY, *AGAINST)}
