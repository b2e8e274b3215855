"""Which languages choose a run's merges, and how: what the source of its counts stores of them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.base.errors import UsageError, unfit
from pipeline.base.units import format_count, parse_whole_number
from pipeline.run.directory import fingerprint

_MOST = 1_000_000  # merges, and last choices that are remembered


@dataclass(frozen=True)
class Language:
    """One run among those that are merged by parity."""

    name: str
    counter: str  # its location
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.name} ({self.counter})"


@dataclass(frozen=True)
class Parity:
    """What Hugging Face's `ParityBpeTrainer` is asked for."""

    languages: tuple[Language, ...]
    dev: tuple[Language, ...] = ()  # measured in their place, in the same order
    ratios: tuple[float, ...] = ()
    window: int = 0  # last choices that are looked at; 0: none
    alpha: float = 2.0
    global_merges: int = 0

    def digest(self) -> str:
        """Return what the merges depend on besides the options of merging."""
        marks = [[one.fingerprint for one in several] for several in (self.languages, self.dev)]
        return fingerprint(marks, self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """How the languages choose."""
        return {name: value for name, value in asdict(self).items() if name not in ("languages", "dev")}


def read_settings(given: Mapping[str, Any], languages: int, dev: int) -> dict[str, Any]:
    """Return the settings of `Parity`, read and checked; `UsageError` for what does not fit the languages."""
    settings: dict[str, Any] = {
        "ratios": tuple(_read("ratio", _above_zero, ratio) for ratio in given.get("ratio") or ()),
        **{name: _read(name, read, given[name]) for name, read in _READERS.items() if given.get(name) is not None},
    }
    for name, number in (("dev", dev), ("ratio", len(settings["ratios"]))):
        if number not in (0, languages):
            raise UsageError(
                f"{name} is given {format_count(number, 'times')} for {format_count(languages, 'runs')}; "
                "give one for each run, in their order"
            )
    if dev and settings["ratios"]:
        raise UsageError("dev and ratio exclude each other: leave one of them out")
    if settings.get("alpha", Parity.alpha) != Parity.alpha and not settings.get("window"):
        raise UsageError("alpha means nothing without window: give both, or neither")
    return settings


def _read(name: str, read: Callable[[object], Any], value: object) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise unfit(name, str(error), value) from None


def _above_zero(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError("a number above 0")
    return float(value)


_READERS: dict[str, Callable[[object], Any]] = {
    "window": parse_whole_number(0, _MOST),
    "alpha": _above_zero,
    "global_merges": parse_whole_number(0, _MOST),
}
