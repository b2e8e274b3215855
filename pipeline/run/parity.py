"""Parity: which languages choose a run's merges, and how; part of what its counts are."""

from dataclasses import asdict, dataclass

from pipeline.base.errors import UsageError
from pipeline.base.units import format_count
from pipeline.run.directory import fingerprint

_MOST = 1_000_000  # merges, and last choices that are remembered


@dataclass(frozen=True)
class Language:
    """One run among those that are merged by parity."""

    name: str
    counter: str  # its location
    fingerprint: str


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
        settings = {name: value for name, value in asdict(self).items() if name not in ("languages", "dev")}
        return fingerprint(marks, settings)

    def check(self) -> None:
        """Raise `UsageError` for settings that do not fit the languages."""
        languages = len(self.languages)
        for flag, values in (("--dev", self.dev), ("--ratio", self.ratios)):
            if values and len(values) != languages:
                raise UsageError(
                    f"{flag} is given {format_count(len(values), 'times')} for {format_count(languages, 'runs')}; "
                    "give one for each run, in their order"
                )
        if self.dev and self.ratios:
            raise UsageError("--dev and --ratio exclude each other: leave one of them out")
        if any(not 0 < ratio < float("inf") for ratio in self.ratios):
            raise UsageError(f"--ratio: expected numbers above 0, not {' '.join(map(str, self.ratios))}")
        for flag, value in (("--parity-window", self.window), ("--global-merges", self.global_merges)):
            if value > _MOST:
                raise UsageError(f"{flag}: expected at most {_MOST:,}, not {value:,}")
        if not 0 < self.alpha < float("inf"):
            raise UsageError(f"--parity-alpha: expected a number above 0, not {self.alpha}")
