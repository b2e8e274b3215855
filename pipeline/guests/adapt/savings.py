"""What each number of new tokens saves: lines for a terminal, and a page with a plot and a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.reports.page import Html, element, html_of, plain_page
from pipeline.reports.result import NOT_STORED, Part, Result, Rows, Table
from pipeline.storage import Location

_WIDTH, _FLOOR, _LEFT = 640, 280, 56  # of the drawing
_MOST_POINTS = 400


@dataclass(frozen=True)
class Saving:
    """The tokens of all counted pieces with this many new ones.

    saved: as a share of the tokens before; by_doubling: of those with half as many new ones.
    """

    new_tokens: int
    tokens: int
    saved: float
    by_doubling: float

    @classmethod
    def of(cls, tokens: Sequence[int], count: int) -> "Saving":
        """Take them from the tokens with each number of new ones."""
        shares = (1 - tokens[count] / max(tokens[fewer], 1) for fewer in (0, count // 2))
        return cls(count, tokens[count], *shares)

    def __str__(self) -> str:
        share = f"{-self.saved:+.1%}, by the last doubling {-self.by_doubling:+.1%}"
        return f"{self.new_tokens:,} new: {self.tokens:,} tokens ({share})"


@dataclass(frozen=True)
class Savings(Result):
    """The plan of an extension. new_tokens: how many repay, if that was asked, and why: stopped.

    tokens[n]: of all counted pieces with n new tokens.
    """

    base: Location
    run: Location
    tokens: tuple[int, ...] = field(metadata=NOT_STORED)
    tokens_before: int
    savings: tuple[Saving, ...]
    new_tokens: int | None
    stopped: str

    event = "plan"

    def shown(self) -> Iterable[Part]:
        """Return rows."""
        rows = [("base", self.base), ("tokens before", self.tokens_before), ("savings", self.savings)]
        yield Rows((*rows, ("new tokens", self.new_tokens or ""), ("stopped", self.stopped)))

    def page(self) -> str:
        """Return a page: the plot, what was chosen, and a table."""
        rows = tuple((one.new_tokens, one.tokens, one.saved, one.by_doubling) for one in self.savings)
        headers = ("new tokens", "tokens of the text", "saved", "by the last doubling")
        table = Table("Numbers of new tokens", headers, rows, forms={2: ".2%", 3: ".2%"})
        drawn = element("section", element("h2", "Tokens saved by the number of new tokens"), self._drawn())
        return plain_page(f"What new tokens save: {self.run}", drawn, element("section", html_of(*self.shown(), table)))

    def _drawn(self) -> Html:
        """Draw the share of tokens saved over the number of new tokens, with marks at the rows of the table."""
        most, before = len(self.tokens) - 1, max(self.tokens_before, 1)
        highest = max(1 - self.tokens[-1] / before, 1e-9)

        def place(count: int) -> tuple[int, int]:
            x = _LEFT + count / max(most, 1) * (_WIDTH - _LEFT - 24)
            return round(x), round(_FLOOR - (1 - self.tokens[count] / before) / highest * (_FLOOR - 16))

        def text(x: float, y: float, said: str, anchor: str) -> Html:
            return element("text", said, x=x, y=y, text_anchor=anchor, fill="currentColor")

        counts = {index * most // _MOST_POINTS for index in range(_MOST_POINTS + 1)}
        points = " ".join(f"{x},{y}" for x, y in map(place, sorted(counts)))
        drawn = [element("polyline", points=points, fill="none", stroke="var(--first)", stroke_width=2)]
        drawn.append(text(_WIDTH / 2, _FLOOR + 36, "new tokens", "middle"))
        for one in self.savings:
            x, y = place(one.new_tokens)
            drawn.append(element("circle", element("title", one), cx=x, cy=y, r=4, fill="var(--first)"))
            if one.new_tokens * 4 >= most:
                drawn.append(text(x, _FLOOR + 18, f"{one.new_tokens:,}", "middle"))
                drawn.append(text(_LEFT - 6, y + 4, f"{one.saved:.1%}", "end"))
        attributes = {
            "viewBox": f"0 0 {_WIDTH} {_FLOOR + 40}",
            "style": "width: 100%; max-width: 44rem; font-size: 13px",
        }
        label = "Share of tokens saved by the number of new tokens; the table below has the numbers"
        return element("svg", *drawn, role="img", aria_label=label, **attributes)
