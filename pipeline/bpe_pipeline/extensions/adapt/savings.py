"""What each number of new tokens saves: lines for a terminal, and a page with a plot and a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bpe_pipeline.base.units import format_share
from bpe_pipeline.reports.figure import Axis, Figure, Series
from bpe_pipeline.reports.page import figure_element, plain_page
from bpe_pipeline.reports.parts import Part, Rows, Table, element, html_of
from bpe_pipeline.reports.result import NOT_STORED, Result
from bpe_pipeline.storage import Location

_MOST_POINTS = 400


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
    def of(cls, tokens: Sequence[int], count: int, before: int) -> "Saving":
        """Take them from the tokens with each number of new ones, and before any was removed."""
        shares = (1 - tokens[count] / max(fewer, 1) for fewer in (before, tokens[count // 2]))
        return cls(count, tokens[count], *shares)

    def __str__(self) -> str:
        of_all, of_half = (format_share(-one, "+.1%") for one in (self.saved, self.by_doubling))
        share = f"{of_all}, by the last doubling {of_half}"
        return f"{self.new_tokens:,} new: {self.tokens:,} tokens ({share})"


@dataclass(frozen=True)
class Savings(Result):
    """The plan of an extension. new_tokens: how many repay, if that was asked, and why: stopped.

    tokens_before: of all counted pre-tokens by the base; tokens[n]: with n new tokens. runs: of each input or run that
    was combined, if there are several, the tokens before, and with as many new ones as each of the savings.
    """

    base: Location
    run: Location
    tokens: tuple[int, ...] = field(metadata=NOT_STORED)
    tokens_before: int
    savings: tuple[Saving, ...]
    new_tokens: int | None
    stopped: str
    runs: dict[str, tuple[int, ...]] = field(default_factory=dict)

    event = "plan"

    def shown(self) -> Iterable[Part]:
        """Return rows."""
        rows = [("base", self.base), ("tokens before", self.tokens_before)]
        yield Rows((*rows, ("new tokens", self.new_tokens or ""), ("stopped", self.stopped)))
        yield from self.tables()

    def tables(self) -> list[Table]:
        """Return what each number of new tokens saves: in all text, and in each input or combined run, if several."""
        shares, note = self._shares(), "Of a run or input without weights." if self.runs else ""
        headers = ("new tokens", "tokens", "saved", "by the last doubling", *self.runs)
        rows = tuple(
            (one.new_tokens, one.tokens, one.saved, one.by_doubling, *(of_run[at] for _, of_run in shares))
            for at, one in enumerate(self.savings)
        )
        forms = dict.fromkeys(range(2, len(headers)), ".1%")
        return [Table("What new tokens save", headers, rows, note, forms, whole="--json")]

    def page(self) -> str:
        """Return a page: the plot, what was chosen, and a table."""
        figure = self.figure()
        sections = (element("section", one) for one in (figure_element(figure), html_of(*self.shown())))
        return plain_page(f"What new tokens save: {self.run}", *sections, figures=[figure])

    def figure(self) -> Figure:
        """Draw the share of tokens saved over the number of new tokens, of each run that was combined, too."""
        most, before = len(self.tokens) - 1, max(self.tokens_before, 1)
        numbers = [one.new_tokens for one in self.savings]
        counts = sorted({int(most ** (index / _MOST_POINTS)) for index in range(_MOST_POINTS + 1) if most})
        curve = tuple((count, round(100 * (1 - self.tokens[count] / before), 4)) for count in counts)
        marks = tuple((one.new_tokens, round(100 * one.saved, 4)) for one in self.savings)
        series = [Series("all" if self.runs else "", curve, style=0), Series("", marks, style=0, alone=True)]
        for style, (name, shares) in enumerate(self._shares(), 1):
            points = zip(numbers, (round(100 * one, 4) for one in shares), strict=True)
            series.append(Series(name, tuple(points), style=style))
        x, y = Axis("new tokens", scale="log", form=",.0f"), Axis("% of the tokens saved", form=".2f", zero=True)
        title, note = "Tokens saved by the number of new tokens", f"All counted pre-tokens of {self.run}."
        return Figure("savings", title, "lines", x, y, tuple(series), note)

    def _shares(self) -> list[tuple[str, list[float]]]:
        return [(name, [1 - one / max(before, 1) for one in after]) for name, (before, *after) in self.runs.items()]
