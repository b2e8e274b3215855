"""What `parity` takes."""

from collections.abc import Mapping
from typing import Any, Literal

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.run import values as read
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.options import (
    ClusterOptions,
    LearningOptions,
    MixtureOptions,
    OutputOptions,
    PreTokenOptions,
    TextOptions,
    VocabularyOptions,
)
from bpe_pipeline.run.record import GROUPS, argument, but, flag, option
from bpe_pipeline.storage import parse_location

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

    pattern: str = but(PreTokenOptions.pattern, shown="",
        help="how text that is not counted yet is split; default: as RUN, else gpt2")
    normalize: Literal["none", "nfc"] = but(PreTokenOptions.normalize, shown="",
        help="Unicode normalization of such text, none or nfc; default: as RUN, else none")
    text_field: str = TextOptions.text_field
    sample: float | int | None = TextOptions.sample
    seed: int = TextOptions.seed
    max_document_chars: int | None = TextOptions.max_document_chars
    stop_at_saving: float | None = LearningOptions.stop_at_saving


class ParityCommandOptions(ParityOptions):
    """What `parity` takes."""

    languages: tuple[str, ...] = argument("[NAME=]RUN ...",
        "the counted run of each language by its name; or its text, which is counted next to the output",
        read=_parse_languages, keyword=Mapping[str, AnyPath])
    dev: tuple[str, ...] | None = flag(None,
        "run to measure in place of RUN, such as a translation of one text; repeatable", "[NAME=]RUN",
        read=_parse_languages, keyword=Mapping[str, AnyPath] | None)
    temperature: str | None = MixtureOptions.temperature
    shares: tuple[str, ...] | None = MixtureOptions.shares
    ratio: tuple[float, ...] | None = flag(None,
        "instead of --dev: target compression of each RUN relative to the others; repeatable", "NUMBER",
        read=_parse_ratios, keyword=Mapping[str, float] | None)
    window: int = option(GROUPS[1], 0,
        "number of last choices in which no language may choose too often; 0: none", "N",
        read=parse_whole_number(0, _MOST), advanced=True)
    alpha: float = option(GROUPS[1], 2.0,
        "with --window, the largest share of these choices for a language: alpha / number of languages",
        "NUMBER", read=above_zero, advanced=True)
    global_merges: int = option(GROUPS[1], 0,
        "number of first merges that the counts of all languages together choose", "N",
        read=parse_whole_number(0, _MOST), advanced=True)
# fmt: on
