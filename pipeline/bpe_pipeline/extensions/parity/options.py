"""What `parity` takes."""

from collections.abc import Mapping
from typing import Any

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.run import values as read
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.options import (
    ClusterOptions,
    MergeOptions,
    MixtureOptions,
    OutputOptions,
    PreTokenOptions,
    TextOptions,
    VocabularyOptions,
)
from bpe_pipeline.run.record import GROUPS, argument, as_in, flag, option
from bpe_pipeline.storage import parse_location

SETTINGS = ("ratio", "window", "alpha", "global_merges")
_MOST = 1_000_000


def above_zero(value: object) -> float:
    """Read a number above 0."""
    number = read.number(value)
    if not 0 < number < float("inf"):
        raise ValueError("a number above 0")
    return number


def _parse_ratios(value: object) -> Any:
    """Read a ratio for each language, by name or in their order."""
    if isinstance(value, Mapping):
        return {name: above_zero(one) for name, one in value.items()}
    if not isinstance(value, tuple):
        raise ValueError("a value for each of the languages")
    return tuple(map(above_zero, value))


def _parse_languages(value: object) -> Any:
    """Read runs or texts by the names of languages, or words such as NAME=PATH."""
    if isinstance(value, tuple):  # of words
        return value
    if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value):
        raise ValueError("a run directory for each name of a language")
    return {name: parse_location(one) for name, one in value.items()}


# fmt: off
class ParityOptions(ClusterOptions, OutputOptions, VocabularyOptions):
    """How text that is not counted yet is read and cut, and how the merges of a run by parity are learned."""

    pattern: str = as_in(PreTokenOptions, "pattern", shown="",
        help="how text that is not counted yet is split; default: as RUN, else gpt2")
    normalize: str = as_in(PreTokenOptions, "normalize", shown="",
        help="Unicode normalization of such text, none or nfc; default: as RUN, else none")
    text_field: str = as_in(TextOptions, "text_field")
    sample: float | int | None = as_in(TextOptions, "sample")
    seed: int = as_in(TextOptions, "seed")
    max_document_chars: int | None = as_in(TextOptions, "max_document_chars")
    stop_at_saving: float | None = as_in(MergeOptions, "stop_at_saving")


class ParityCommandOptions(ParityOptions):
    """What `parity` takes."""

    languages: tuple[str, ...] = argument("[NAME=]RUN ...", _parse_languages,
        "the counted run of each language by its name; or its text, which is counted next to the output",
        keyword=Mapping[str, AnyPath])
    dev: tuple[str, ...] | None = flag(None, _parse_languages,
        "run to measure in place of RUN, such as a translation of one text; repeatable", "[NAME=]RUN",
        keyword=Mapping[str, AnyPath] | None)
    temperature: str | None = as_in(MixtureOptions, "temperature")
    shares: tuple[str, ...] | None = as_in(MixtureOptions, "shares")
    ratio: tuple[float, ...] | None = flag(None, _parse_ratios,
        "instead of --dev: target compression of each RUN relative to the others; repeatable", "NUMBER",
        keyword=Mapping[str, float] | None)
    window: int = option(GROUPS[1], "run", 0, parse_whole_number(0, _MOST),
        "number of last choices in which no language may choose too often; 0: none", "N",
        advanced=True)
    alpha: float = option(GROUPS[1], "run", 2.0, above_zero,
        "with --window, the largest share of these choices for a language: alpha / number of languages",
        "NUMBER", advanced=True)
    global_merges: int = option(GROUPS[1], "run", 0, parse_whole_number(0, _MOST),
        "number of first merges that the counts of all languages together choose", "N", advanced=True)
# fmt: on
