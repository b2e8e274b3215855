"""What each number of new tokens saves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bpe_pipeline.base.units import format_share
from bpe_pipeline.reports.parts import Part, Rows, Table
from bpe_pipeline.reports.result import Result
from bpe_pipeline.storage import Location


@dataclass(frozen=True)
class Saving:
    """The tokens of all counted pre-tokens with this many new ones.

    saved: as a share of the tokens before; by_doubling: of those with half as many new ones.
    """

    new_tokens: int
    tokens: int
    saved: float
    by_doubling: float

    @classmethod
    def of(cls, tokens: Sequence[int], count: int) -> "Saving":
        """Take them from the tokens with each number of new ones."""
        shares = (1 - tokens[count] / max(fewer, 1) for fewer in (tokens[0], tokens[count // 2]))
        return cls(count, tokens[count], *shares)

    def __str__(self) -> str:
        of_all, of_half = (format_share(-one, "+.1%") for one in (self.saved, self.by_doubling))
        share = f"{of_all}, by the last doubling {of_half}"
        return f"{self.new_tokens:,} new: {self.tokens:,} tokens ({share})"


@dataclass(frozen=True)
class Savings(Result):
    """The plan of an extension. new_tokens: how many repay, if that was asked, and why: stopped.

    tokens_before: of all counted pre-tokens by the base. runs: of each input or run that was combined, if there are
    several, the tokens before, and with as many new ones as each of the savings.
    """

    base: Location
    run: Location
    tokens_before: int
    savings: tuple[Saving, ...]
    new_tokens: int | None
    stopped: str
    runs: dict[str, tuple[int, ...]] = field(default_factory=dict)

    event = "plan"

    def shown(self) -> Iterable[Part]:
        """Return rows, and what each number of new tokens saves: in all text, and in each input or combined run."""
        before = ("base", self.base), ("tokens before", self.tokens_before)
        yield Rows((*before, ("new tokens", self.new_tokens or ""), ("stopped", self.stopped)))
        note = "Of a run or input without weights." if self.runs else ""
        shares = [[1 - one / max(before, 1) for one in after] for before, *after in self.runs.values()]
        headers = ("new tokens", "tokens", "saved", "by the last doubling", *self.runs)
        rows = tuple(
            (one.new_tokens, one.tokens, one.saved, one.by_doubling, *(of_run[at] for of_run in shares))
            for at, one in enumerate(self.savings)
        )
        forms = dict.fromkeys(range(2, len(headers)), ".1%")
        yield Table("What new tokens save", headers, rows, note, forms, whole="--json")
