"""A figure as a value, for two renderers: plotly draws it on the page, matplotlib in files (figure_files.py).

    kind     what is drawn                                          points of a series
    lines    a line for each series, or its points alone            (number, number)
    dots     a row for each category, in it a dot for each series   (number, category)
    bars     a bar for each point; no two series have the same x    (category or number, number)

    Figure("languages", "Tokens for the same text by language", "dots", Axis("times English", form=".2f"), Axis(),
           (Series("this tokenizer", ((1.0, "en"), (2.1, "sw"))), Series("gpt2", ((1.0, "en"), (2.6, "sw")))),
           "Held-out parallel files.")

Series differ by colour, marker and dash, by their position or `style`, so that they can be told apart in grey and by
people who are colour-blind (Okabe and Ito's colours). `size_axis` has the ticks of vocabulary sizes.

A page with figures: `plain_page(title, figure_element(figure), ..., figures=[figure, ...])` of page.py, which draws
where plotly is installed. Files: `write_figures(directory, figures, tables)` of figure_files.py.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

COLOURS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
"""Names in page.css."""
MARKERS = (
    ("circle", "o"),
    ("square", "s"),
    ("diamond", "D"),
    ("triangle-up", "^"),
    ("x", "X"),
    ("cross", "P"),
    ("triangle-down", "v"),
)
DASHES = (("solid", "-"), ("dash", "--"), ("dot", ":"), ("dashdot", "-."), ("longdash", (0, (8, 3))))
"""Both by their names in plotly and in matplotlib."""
MARKED_POINTS = 24  # a line of at most so many has a marker at each
_MOST_TICKS = 6  # that fit on a telephone
_LEFT_OF_FIRST = 0.06  # of the axis of sizes, so that its first tick does not touch the other axis' 0
_USUAL_SIZES = (256, *(1000 * 2**power for power in range(9)))
Value = int | float | str


@dataclass(frozen=True)
class Axis:
    """form: of its numbers, as Python and plotly write it. ticks: values with their texts; none: as the renderer likes.
    limits: the first and the last value shown. zero: it begins there. mark: a value of x with a line."""

    label: str = ""
    scale: Literal["linear", "log", "category"] = "linear"
    form: str = ",.3f"
    ticks: tuple[tuple[float, str], ...] = ()
    limits: tuple[float, float] | None = None
    zero: bool = False
    mark: float | None = None


@dataclass(frozen=True)
class Series:
    """Points as they are drawn, with a name for the legend. style: of another series, by its
    position. alone: points of a figure of lines that no line joins."""

    name: str
    points: tuple[tuple[Value, Value], ...]
    style: int | None = None
    alone: bool = False


@dataclass(frozen=True)
class Figure:
    """id: of its element and files. note: where its numbers come from."""

    id: str
    title: str
    kind: Literal["lines", "dots", "bars"]
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    note: str = ""

    def categories(self, at: int) -> list[Value]:
        """Return the different values of an axis, 0 or 1, as they come."""
        return list(dict.fromkeys(point[at] for line in self.series for point in line.points))

    @property
    def bar_width(self) -> float:
        """The width of bars, in units of x, with gaps between them."""
        numbers = sorted(x for x in self.categories(0) if not isinstance(x, str))
        return 0.9 * min((after - before for before, after in pairwise(numbers)), default=1)

    def styled(self) -> Iterator[tuple[Series, int]]:
        """Yield each series with the position of its style."""
        yield from ((one, at if one.style is None else one.style) for at, one in enumerate(self.series))

    @property
    def has_legend(self) -> bool:
        """Whether a name is needed to tell series apart."""
        return sum(bool(line.name) for line in self.series) > 1

    def rows(self) -> Iterator[tuple[Value, ...]]:
        """Yield its numbers as a table, headers first."""
        yield "series", self.x.label or "x", self.y.label or "y"
        yield from ((line.name, x, y) for line in self.series for x, y in line.points)


def size_axis(sizes: Iterable[int], label: str = "vocabulary size") -> Axis:
    """Return a logarithmic axis for these vocabulary sizes, with as many usual ones as ticks as fit."""
    listed = sorted(sizes)
    first = max(size for size in _USUAL_SIZES if size <= max(listed[0], _USUAL_SIZES[0]))
    usual = [size for size in _USUAL_SIZES if first <= size <= listed[-1] * 1.1] or [listed[-1]]
    every = -(-len(usual) // _MOST_TICKS)
    ticks = tuple((size, short(size)) for size in usual[::-1][::every][::-1])
    least, most = math.log10(first), math.log10(listed[-1] * 1.15)
    limits = 10 ** (least - (most - least) * _LEFT_OF_FIRST), 10**most
    return Axis(label, scale="log", form=",.0f", ticks=ticks, limits=limits)


def without_endings(names: Iterable[str]) -> dict[str, str]:
    """Return names of files as figures show them: without their endings, where they stay different.

    >>> without_endings(["en.txt", "gu.jsonl.gz", "v1.2"])
    {'en.txt': 'en', 'gu.jsonl.gz': 'gu', 'v1.2': 'v1.2'}
    """
    bare = {name: re.sub(r"(?<=[^/])(\.[a-z]\w{1,7}){1,2}$", "", name) for name in names}
    return bare if len({*bare.values()}) == len(bare) else {name: name for name in bare}


def short(size: int) -> str:
    """Return a size as people say it.

    >>> short(32_000), short(1_024)
    ('32k', '1,024')
    """
    return f"{size // 1000}k" if size >= 1000 and size % 1000 == 0 else f"{size:,}"


def plotly_figure(figure: Figure) -> dict[str, Any]:
    """Return data and layout as plotly draws them; colours are names of the page's style sheet."""
    template = json.loads(Path(__file__).with_name("plots.json").read_bytes())
    series, rows = len(figure.series), len(figure.categories(1)) if figure.kind == "dots" else 0
    layout: dict[str, Any] = {"template": template, "height": 280 + 10 * series, "showlegend": figure.has_legend}
    layout |= {"xaxis": _plotly_axis(figure.x), "yaxis": _plotly_axis(figure.y)}
    if figure.kind == "dots":
        layout |= {"height": 100 + 22 * rows + 10 * series}
        layout["yaxis"] |= {"type": "category", "autorange": "reversed", "dtick": 1}
    if figure.kind == "bars" and isinstance(figure.categories(0)[0], str):
        layout["xaxis"] |= {"type": "category"}
    if figure.x.mark is not None:
        line = {"dash": "dash", "color": "var(--text)", "width": 1.5}
        layout["shapes"] = [{"x0": figure.x.mark, "x1": figure.x.mark, "y0": 0, "y1": 1, "yref": "paper", "line": line}]
    return {"data": [_plotly_trace(figure, one, style) for one, style in figure.styled()], "layout": layout}


def _plotly_axis(axis: Axis) -> dict[str, Any]:
    layout: dict[str, Any] = {"title": {"text": _plain(axis.label)}, "type": axis.scale, "hoverformat": axis.form}
    if axis.ticks:
        layout |= {"tickvals": [at for at, _ in axis.ticks], "ticktext": [_plain(text) for _, text in axis.ticks]}
    elif axis.scale == "log":
        layout |= {"dtick": 1}
    if axis.limits is not None:
        layout |= {"range": [math.log10(one) if axis.scale == "log" else one for one in axis.limits]}
    return layout | ({"rangemode": "tozero"} if axis.zero else {})


def _plotly_trace(figure: Figure, one: Series, style: int) -> dict[str, Any]:
    colour = f"var(--{COLOURS[style % len(COLOURS)]})"
    trace: dict[str, Any] = {"x": [x for x, _ in one.points], "y": [y for _, y in one.points], "name": _plain(one.name)}
    for at, axis in (("x", figure.x), ("y", figure.y)):
        trace[at] = [_plain(value) if isinstance(value, str) else value for value in trace[at]]
        trace["hovertemplate"] = trace.get("hovertemplate", "") + f"{_plain(axis.label)} %{{{at}}}<br>"
    trace["hovertemplate"] += f"<extra>{_plain(one.name)}</extra>"
    if figure.kind == "bars":
        return trace | {"type": "bar", "marker": {"color": colour}, "width": figure.bar_width}
    joined = figure.kind == "lines" and not one.alone
    marked = not joined or len(one.points) <= MARKED_POINTS
    mode = "+".join(("lines",) * joined + ("markers",) * marked)
    symbol = MARKERS[marker_of(style)][0] + "-open" * bool(style)
    marker = {"color": colour, "symbol": symbol, "size": 9, "line": {"color": colour, "width": 2}}
    line = {"color": colour, "dash": DASHES[style % len(DASHES)][0], "width": 2}
    return trace | {"type": "scatter", "mode": mode, "marker": marker, "line": line, "showlegend": bool(one.name)}


def marker_of(style: int) -> int:
    """Return the position of a style's marker: the eighth has the first colour with the second marker."""
    return (style + style // len(COLOURS)) % len(MARKERS)


def _plain(text: str) -> str:
    """Keep plotly from interpreting tags and formulas."""
    return text.replace("<br>", "\n").replace("<", "\u2039").replace("\n", "<br>").replace("$", "\uff04")
