"""What results show: rows of a name and a value, notes, tables and lists, and how each is written as text.

`templates/parts.html` shows them as HTML, by their kind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bpe_pipeline.base.printable import UNBOUNDED, printable, wrapped
from bpe_pipeline.base.units import format_share

_LEAST_MARKED = 0.01  # of the larger one: a best and a worst cell that differ by less are alike
_MOST_ROWS, _MOST_ITEMS, _MOST_LINES = 16, 6, 20  # in text; JSON and pages have all


@dataclass(frozen=True)
class Rows:
    """Names and values. An empty value is left out; a list has a row for each member, with the name at the first."""

    rows: tuple[tuple[str, object], ...]
    title: str = ""
    kind: ClassVar = "rows"

    def texts(self) -> list[tuple[str, str]]:
        """Return the rows as they are shown, a name once."""
        listed = [(name, text) for name, value in self.rows for text in _lines(value) if text]
        before = ["", *(name for name, _ in listed)]
        return [("" if name == last else name, text) for last, (name, text) in zip(before, listed, strict=False)]

    def text(self, columns: int) -> str:
        """Align names and values."""
        rows, indent = self.texts(), "  " if self.title else ""
        width = max((len(name) for name, _ in rows), default=0)
        lines = [printable(self.title)] if self.title else []
        for name, text in rows:
            line = printable(f"{indent}{name:<{width}}  {text}")
            lines.append(wrapped(line, columns, len(indent) + width + 2, command=name == "next"))
        return "\n".join(lines)


@dataclass(frozen=True)
class Note:
    """A paragraph. warning: it is to be seen."""

    title: str
    note: str
    warning: bool = False
    kind: ClassVar = "note"

    def text(self, columns: int) -> str:
        """Return the title and the paragraph below it."""
        return "\n".join([printable(self.title), wrapped(printable(f"  {self.note}"), columns)])


class Excluded(float):
    """A cell of a table that stands back, with a dagger."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under headers; a dash stands for None.

    forms: of the fractions of a column; others have three digits. better: the columns of which the best and the worst
    cell are marked if they differ by 1 %, 1 if more is better, -1 if less is. across: compare the cells of a row, not
    of a column. picked: the row and column of a cell that is recommended. heat: a page draws it as a heat map, too.
    whole: what has the rows that the text leaves out.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    forms: Mapping[int, str] = field(default_factory=dict)
    better: Mapping[int, int] = field(default_factory=dict)
    across: bool = False
    picked: tuple[int, int] | None = None
    heat: bool = False
    whole: str = "report.json"
    kind: ClassVar = "table"

    def texts(self) -> list[list[str]]:
        """Return the cells as they are shown."""
        return [[_cell(cell, self.forms.get(at, ",.3f")) for at, cell in enumerate(row)] for row in self.rows]

    def marks(self) -> dict[tuple[int, int], str]:
        """Return marks by row and column, also of several cells that look alike; none if all compared cells do."""
        texts, marks = self.texts(), dict[tuple[int, int], str]()
        columns = [[(row, column) for row in range(len(texts))] for column in self.better]
        for group in zip(*columns, strict=True) if self.across else columns:
            cells = {(row, at): self.rows[row][at] for row, at in group}
            known = {at: cell * self.better[at[1]] for at, cell in cells.items() if isinstance(cell, int | float)}
            ranked = sorted(known, key=known.__getitem__)
            ends = [texts[row][at] for row, at in (*ranked[:1], *ranked[-1:])]
            sizes = [abs(value) for value in known.values()]
            if len({*ends}) > 1 and known[ranked[-1]] - known[ranked[0]] >= _LEAST_MARKED * max(sizes):
                names = dict(zip(ends, ("worst", "best"), strict=True))
                marks |= {(row, at): names[texts[row][at]] for row, at in known if texts[row][at] in names}
        for row, listed in enumerate(self.rows):
            marks |= {(row, at): "excluded" for at, cell in enumerate(listed) if isinstance(cell, Excluded)}
        return marks if self.picked is None else marks | {self.picked: "recommended"}

    def text(self, columns: int) -> str:
        """Align the first column left and the others right; leave out columns that do not fit, and say so."""
        texts, (row, picked) = self.texts(), self.picked or (0, 0)
        if picked:
            texts[row][picked] = f"*{texts[row][picked]}"
        rows = [[printable(cell) for cell in cells] for cells in (self.headers, *texts[:_MOST_ROWS])]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        if widths[0] > columns // 2:
            widths[0] = columns // 2
            rows = [[name if len(name) <= widths[0] else f"…{name[1 - widths[0] :]}", *more] for name, *more in rows]
        shown = [0]
        for at in sorted(range(1, len(widths)), key=lambda at: at != picked):  # that one before all others
            if sum(2 + widths[other] for other in (*shown, at)) <= columns:
                shown = sorted([*shown, at])
        lines = [printable(self.title)]
        for cells in rows:
            aligned = (cells[at].rjust(widths[at]) if at else cells[at].ljust(widths[at]) for at in shown)
            lines.append("  ".join(("", *aligned)).rstrip())
        if (more := len(self.rows) - _MOST_ROWS) > 0:
            lines.append(f"  ... {more} more in {self.whole}")
        if absent := ", ".join(name for at, name in enumerate(rows[0]) if at not in shown):
            lines.append(wrapped(f"  ... too wide for {columns} columns: {absent}; see {self.whole}", columns))
        return "\n".join(lines)


@dataclass(frozen=True)
class Items:
    """A list of texts, each with what is said of it."""

    title: str
    items: tuple[tuple[str, str], ...]
    note: str = ""
    kind: ClassVar = "items"

    def text(self, columns: int) -> str:
        """Return the first ones in a line."""
        first = ", ".join(f"{text} {more}".rstrip() for text, more in self.items[:_MOST_ITEMS])
        return wrapped(printable(f"{self.title}: {first}" if first else self.title), columns)


Part = Rows | Note | Table | Items


def as_text(parts: Iterable[Part], columns: int = UNBOUNDED) -> str:
    """Return parts as text, with a blank line between them. columns: of a terminal; what is longer is wrapped."""
    return "\n\n".join(part.text(columns) for part in parts)


def _lines(value: object) -> list[str]:
    if isinstance(value, list | tuple):
        more = [f"... and {len(value) - _MOST_LINES:,} more: --json has all"] if len(value) > _MOST_LINES else []
        return [*map(str, value[:_MOST_LINES]), *more]
    return [f"{value:,}" if type(value) is int else str(value)]


def _cell(cell: object, form: str) -> str:
    if isinstance(cell, int | float):
        of_share = isinstance(cell, float) and form.endswith("%")
        shown = format_share(cell, form) if of_share else format(cell, "," if isinstance(cell, int) else form)
        return shown + "†" * isinstance(cell, Excluded)
    return "–" if cell is None else str(cell)
