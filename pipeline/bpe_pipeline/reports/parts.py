"""What results show: rows of a name and a value, notes, tables and lists, and how each is written as text.

`templates/parts.html` shows them as HTML, by their kind.
"""

from collections.abc import Iterable, Mapping, Sequence
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


@dataclass(frozen=True)
class Note:
    """A paragraph. warning: it is to be seen."""

    title: str
    text: str
    warning: bool = False
    kind: ClassVar = "note"


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
        cells = [[(row, column) for column in self.better] for row in range(len(self.rows))]
        texts, marks = self.texts(), dict[tuple[int, int], str]()
        for group in cells if self.across else zip(*cells, strict=True):
            values = {(row, column): self.rows[row][column] for row, column in group}
            known = {at: value * self.better[at[1]] for at, value in values.items() if isinstance(value, int | float)}
            alike = {(row, column): texts[row][column] for row, column in known}
            least, most = (choose(known, key=known.__getitem__, default=None) for choose in (min, max))
            if least and most and known[most] - known[least] >= _LEAST_MARKED * max(map(abs, known.values())):
                mark_of = {alike[least]: "worst", alike[most]: "best"}
                marks |= {at: mark_of[text] for at, text in alike.items() if len(mark_of) > 1 and text in mark_of}
        places = ((row, at) for row, cells in enumerate(self.rows) for at in range(len(cells)))
        marks |= {(row, at): "excluded" for row, at in places if isinstance(self.rows[row][at], Excluded)}
        return marks if self.picked is None else marks | {self.picked: "recommended"}


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


def _lines(value: object) -> list[str]:
    if isinstance(value, list | tuple):
        more = [f"... and {len(value) - _MOST_LINES:,} more: --json has all"] if len(value) > _MOST_LINES else []
        return [*map(str, value[:_MOST_LINES]), *more]
    return [f"{value:,}" if type(value) is int else str(value)]


def as_text(parts: Iterable[Part], columns: int = UNBOUNDED) -> str:
    """Return parts as text, with a blank line between them. columns: of a terminal; what is longer is wrapped."""
    return "\n\n".join(_TEXT[type(part)](part, columns) for part in parts)


def _rows_text(part: Rows, columns: int) -> str:
    """Align names and values."""
    rows, indent = part.texts(), "  " if part.title else ""
    width = max((len(name) for name, _ in rows), default=0)
    lines = [printable(part.title)] if part.title else []
    for name, text in rows:
        line = printable(f"{indent}{name:<{width}}  {text}")
        lines.append(wrapped(line, columns, len(indent) + width + 2, command=name == "next"))
    return "\n".join(lines)


def _note_text(part: Note, columns: int) -> str:
    return "\n".join([printable(part.title), wrapped(printable(f"  {part.text}"), columns)])


def _table_text(part: Table, columns: int) -> str:
    """Align the first column left and the others right; leave out columns that do not fit, and say so."""
    texts = part.texts()
    if part.picked is not None:
        texts[part.picked[0]][part.picked[1]] = "*" + texts[part.picked[0]][part.picked[1]]
    rows = [[printable(cell) for cell in row] for row in (part.headers, *texts[:_MOST_ROWS])]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    if first > columns // 2:
        first = columns // 2
        rows = [[name if len(name) <= first else f"…{name[1 - first :]}", *cells] for name, *cells in rows]
    kept = _that_fit(others, columns - first - 2, None if part.picked is None else part.picked[1] - 1)
    shown = ([row[0].ljust(first), *(row[1 + at].rjust(others[at]) for at in kept)] for row in rows)
    lines = [printable(part.title), *("  ".join(("", *row)).rstrip() for row in shown)]
    if (more := len(part.rows) - _MOST_ROWS) > 0:
        lines.append(f"  ... {more} more in {part.whole}")
    if left_out := [name for at, name in enumerate(rows[0][1:]) if at not in kept]:
        lines.append(wrapped(f"  ... too wide for {columns} columns: {', '.join(left_out)}; see {part.whole}", columns))
    return "\n".join(lines)


def _that_fit(widths: Sequence[int], columns: int, first: int | None) -> list[int]:
    """Return the positions of the columns that fit next to each other, `first` before all others."""
    kept = list[int]()
    for at in sorted(range(len(widths)), key=lambda at: at != first):
        if sum(widths[one] + 2 for one in (*kept, at)) <= columns:
            kept.append(at)
    return sorted(kept)


def _cell(cell: object, form: str) -> str:
    if isinstance(cell, int | float):
        of_share = isinstance(cell, float) and form.endswith("%")
        shown = format_share(cell, form) if of_share else format(cell, "," if isinstance(cell, int) else form)
        return shown + "†" * isinstance(cell, Excluded)
    return "–" if cell is None else str(cell)


_TEXT: Mapping[type, Any] = {Rows: _rows_text, Note: _note_text, Table: _table_text, Items: Items.text}
