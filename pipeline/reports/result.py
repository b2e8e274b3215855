"""What a command returns: a frozen value that says once what it shows, and the renderers to text and to plain values.

The fields of a result are its JSON. What it shows is a list of parts: rows of a name and a value, notes, tables and
lists. Text is made of them here, HTML by `page.py`, Markdown by `model_card.py`. Advice comes with its weight: what it
rests on, and the number that would change it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

from pipeline.base.printable import printable, printable_lines
from pipeline.merges.vocabulary import token_to_text
from pipeline.storage import Remote

NOT_STORED = {"stored": False}  # metadata of a field that is no part of the JSON
EQUAL = 0.001  # of the bytes per token: what differs by less is equal
_MOST_ROWS, _MOST_ITEMS, _MOST_LINES = 16, 6, 20  # in text; JSON and pages have all


@dataclass(frozen=True)
class Rows:
    """Names and values. An empty value is left out; a list has a row for each member, with the name at the first."""

    rows: tuple[tuple[str, object], ...]
    title: str = ""

    def texts(self) -> list[tuple[str, str]]:
        """Return the rows as they are shown."""
        return [(name, text) for name, value in self.rows for text in _lines(value) if text]


@dataclass(frozen=True)
class Note:
    """A paragraph. warning: it is to be seen."""

    title: str
    text: str
    warning: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under headers; a dash stands for None.

    forms: of the fractions of a column; others have three digits. better: the columns of which the best and the worst
    cell are marked, 1 if more is better, -1 if less is. across: compare the cells of a row, not of a column.
    picked: the row and column of a cell that is recommended. whole: what has the rows that the text leaves out.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    forms: Mapping[int, str] = field(default_factory=dict)
    better: Mapping[int, int] = field(default_factory=dict)
    across: bool = False
    picked: tuple[int, int] | None = None
    whole: str = "report.json"

    def texts(self) -> list[list[str]]:
        """Return the cells as they are shown."""
        return [[_cell(cell, self.forms.get(at, ",.3f")) for at, cell in enumerate(row)] for row in self.rows]

    def marks(self) -> dict[tuple[int, int], str]:
        """Return marks by row and column, also of several cells that look alike; none if all compared cells do."""
        places = [[(row, column) for column in self.better] for row in range(len(self.rows))]
        texts, found = self.texts(), dict[tuple[int, int], str]()
        for group in places if self.across else zip(*places, strict=True):
            values = {(row, column): self.rows[row][column] for row, column in group}
            known = {at: value * self.better[at[1]] for at, value in values.items() if isinstance(value, int | float)}
            alike = {(row, column): texts[row][column] for row, column in known}
            if len(set(alike.values())) > 1:
                least, most = (alike[choose(known, key=known.__getitem__)] for choose in (min, max))
                marks = {least: "worst", most: "best"}
                found |= {at: marks[text] for at, text in alike.items() if text in marks}
        return found if self.picked is None else found | {self.picked: "recommended"}


@dataclass(frozen=True)
class Items:
    """A list of texts, each with what is said of it."""

    title: str
    items: tuple[tuple[str, str], ...]
    note: str = ""

    def text(self) -> str:
        """Return the first ones in a line."""
        first = ", ".join(f"{text} {more}".rstrip() for text, more in self.items[:_MOST_ITEMS])
        return printable(f"{self.title}: {first}" if first else self.title)


Part = Rows | Note | Table | Items


@dataclass(frozen=True)
class Advice:
    """A recommendation. because: what it rests on, in one line; unless: the number that would change it; equal: what
    else would be as good; evidence: the numbers. outcome: of what was examined: "fine", "wrong" (take is the remedy),
    "advice" (it works, but may surprise) or "not checked"."""

    about: str
    take: str
    because: str
    unless: str = ""
    equal: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    outcome: str = "advice"

    def __str__(self) -> str:
        return "; ".join(part for part in (self.because, self.unless) if part)


def prices(tokens: Mapping[int, float], size: int) -> str:
    """Compare a size with its neighbours. tokens: of the same text, by vocabulary size.

    >>> prices({8000: 118.0, 16000: 105.0, 32000: 100.0}, 16000)
    '8,000 costs 12.4% more tokens, 32,000 4.8% fewer'
    """
    sizes = sorted(tokens)
    at = sizes.index(size)
    smaller, larger = sizes[max(at - 1, 0) : at], sizes[at + 1 : at + 2]
    more = [f"{one:,} costs {tokens[one] / tokens[size] - 1:.1%} more tokens" for one in smaller]
    fewer = [f"{one:,} {'' if more else 'has '}{1 - tokens[one] / tokens[size]:.1%} fewer" for one in larger]
    return ", ".join([*more, *fewer]) + ("" if more or not fewer else " tokens")


class Result:
    """What a command returns. A subclass is a frozen dataclass, which Python shows as text."""

    event: str = ""  # its name in `--log-json`

    def shown(self) -> Iterable[Part]:
        """Return what is shown of it."""
        raise NotImplementedError

    @property
    def brief(self) -> str:
        """What `--quiet` prints."""
        return ""

    @property
    def exit_code(self) -> int:
        """What the command returns."""
        return 0

    def to_json(self) -> dict[str, Any]:
        """Return its fields as plain values."""
        found: dict[str, Any] = plain(self)
        return found

    def __str__(self) -> str:
        return as_text(self.shown())

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return str(import_module("pipeline.reports.page").html_of(*self.shown()))

    def __repr__(self) -> str:
        return str(self)

    def __init_subclass__(cls) -> None:
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]  # dataclass makes none where there is one


@dataclass(frozen=True)
class Facts(Result, Mapping[str, Any]):
    """Facts by name, shown as rows; a list of other facts as blocks below."""

    facts: Mapping[str, Any]
    event: str = ""
    short: str = ""  # with `--quiet`
    shown_as: Mapping[str, object] = field(default_factory=dict)  # a text or lines in place of the value

    @property
    def brief(self) -> str:
        """What `--quiet` prints."""
        return self.short

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def shown(self) -> Iterable[Part]:
        """Return rows, and a block for each part."""
        rows, blocks = [], list[Facts]()
        for name, value in {**self.facts, **self.shown_as}.items():
            if isinstance(value, list) and value and isinstance(value[0], Facts):
                blocks += value
            else:
                rows.append((name.replace("_", " "), "none" if value in ([], None) else value))
        return [Rows(tuple(rows)), *(part for block in blocks for part in block.shown())]


def _lines(value: object) -> list[str]:
    if isinstance(value, list | tuple):
        more = [f"... and {len(value) - _MOST_LINES:,} more: --json has all"] if len(value) > _MOST_LINES else []
        return [*map(str, value[:_MOST_LINES]), *more]
    return [f"{value:,}" if type(value) is int else str(value)]


def plain(value: Any) -> Any:
    """Return plain values, which JSON has, of a result: bytes in the letters of vocab.json, other things as text."""
    if isinstance(value, bytes):
        return token_to_text(value)
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, Remote):
        names = (one.name for one in fields(value) if one.metadata.get("stored", True))
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def as_text(parts: Iterable[Part]) -> str:
    """Return parts as text, with a blank line between them."""
    return "\n\n".join(_TEXT[type(part)](part) for part in parts)


def _rows_text(part: Rows) -> str:
    """Align names and values."""
    rows, indent = part.texts(), "  " if part.title else ""
    width = max((len(name) for name, _ in rows), default=0)
    names = [name if before != name else "" for (before, _), (name, _) in pairwise([("", ""), *rows])]
    lines = (f"{indent}{name:<{width}}  {text}" for name, (_, text) in zip(names, rows, strict=True))
    return printable_lines([part.title, *lines] if part.title else lines)


def _note_text(part: Note) -> str:
    return printable_lines([part.title, f"  {part.text}"])


def _table_text(part: Table) -> str:
    """Align the first column left and the others right."""
    texts = part.texts()
    if part.picked is not None:
        texts[part.picked[0]][part.picked[1]] = "*" + texts[part.picked[0]][part.picked[1]]
    rows = [[printable(cell) for cell in row] for row in (part.headers, *texts[:_MOST_ROWS])]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = ["  ".join(("", row[0].ljust(first), *map(str.rjust, row[1:], others))).rstrip() for row in rows]
    more = len(part.rows) - _MOST_ROWS
    return printable_lines([part.title, *lines, *([f"  ... {more} more in {part.whole}"] if more > 0 else [])])


def _cell(cell: object, form: str) -> str:
    if isinstance(cell, int | float):
        return format(cell, "," if isinstance(cell, int) else form)
    return "–" if cell is None else str(cell)


_TEXT: Mapping[type, Any] = {Rows: _rows_text, Note: _note_text, Table: _table_text, Items: Items.text}
