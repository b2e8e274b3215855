"""A figure is a specification of Vega-Lite, with the numbers that it draws: the page and `drawing.py` draw it.

Series differ by colour and marker: they can be distinguished in grey, and by people who are colour-blind (Okabe and
Ito's colours).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.base.printable import printable
from bpe_pipeline.reports.parts import Table

LIGHT = {"page": "#f6f7f9", "card": "#ffffff", "text": "#1d2430", "quiet": "#525c6b", "grid": "#d5dae2"}
DARK = {"page": "#12161c", "card": "#1b2129", "text": "#e6eaf0", "quiet": "#a9b3c1", "grid": "#39424f"}
for _colours, _listed in (
    (LIGHT, "#0072b2 #d55e00 #009e73 #cc79a7 #1d2430 #56b4e9 #e69f00"),
    (DARK, "#56b4e9 #f28a3a #2bc79a #e8a9cb #e6eaf0 #f0e442 #a98bff"),
):
    _colours.update((f"series-{at}", colour) for at, colour in enumerate(_listed.split()))
_SERIES = [name for name in LIGHT if name.startswith("series-")]
_MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right")
_USUAL_SIZES = (256, *(1000 * 2**power for power in range(9)))
_MOST_TICKS = 6  # that fit on a telephone
_MARKED_POINTS = 100  # a line of more has no markers
_HEAT = {"name": "blues", "extent": [0, 0.6]}  # on all of which dark text is legible, also on a dark page
_ROW, _HEIGHT = 22, 260  # pixels: of a category, of other figures
Encoding = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """Points (x, y) with a name for the legend. joined: by a line."""

    name: str
    points: Sequence[tuple[Any, Any]]
    joined: bool = False


@dataclass(frozen=True)
class Figure:
    """id: of its element and files. note: where its numbers come from. series: what `spec` draws."""

    id: str
    title: str
    note: str
    series: tuple[Series, ...]
    spec: Mapping[str, Any]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield its numbers as a table, headers first."""
        yield "series", *(self.spec["encoding"][axis]["title"] or axis for axis in "xy")
        yield from ((one.name, x, y) for one in self.series for x, y in one.points)


def figure_of(
    id_: str, title: str, axes: tuple[Encoding, Encoding], series: Sequence[Series], note: str = "", mark: str = "point"
) -> Figure:
    """Return a figure. axes: x and y, of `number`, `category` or `size`; mark: "point" or "bar"."""
    names = [printable(one.name) for one in series]
    markers = [_MARKERS[(at + at // len(_SERIES)) % len(_MARKERS)] for at in range(len(names))]
    colours = [f"var(--{_SERIES[at % len(_SERIES)]})" for at in range(len(names))]
    legend = {"title": None} if len(names) > 1 else None
    of_series = {"field": "series", "type": "nominal", "legend": legend}
    x, y = axes
    encoding = {"x": x, "y": y, "color": {**of_series, "scale": {"domain": names, "range": colours}}}
    shape = {**of_series, "scale": {"domain": names, "range": markers}}
    layers = []
    for kind in ("line", mark):
        drawn = [one for one in series if (one.joined if kind == "line" else len(one.points) <= _MARKED_POINTS)]
        values = [_row(printable(one.name), *point) for one in drawn for point in one.points]
        shaped = {"encoding": {"shape": shape}} if kind == "point" else {}
        if values:
            layers.append({"data": {"values": values}, "mark": {"type": kind, "tooltip": True}, **shaped})
    rows = len({point[1] for one in series for point in one.points}) if y["type"] == "nominal" else 0
    return Figure(id_, title, note, tuple(series), _spec(_ROW * rows or _HEIGHT, encoding, layers))


def heat_map(table: Table) -> Figure:
    """Return the fractions of a table as a figure: its rows and columns, darker where they are greater."""
    _, *columns = table.headers
    listed = [
        (str(row[0]), list(zip(columns, row[1:], texts[1:], strict=True)))
        for row, texts in zip(table.rows, table.texts(), strict=True)
    ]
    values = [{**_row("", x, name), "value": value, "text": text} for name, row in listed for x, value, text in row]
    shade = {"field": "value", "type": "quantitative", "legend": None, "scale": {"scheme": _HEAT}}
    cells = {"mark": {"type": "rect", "tooltip": True}, "encoding": {"color": shade}}
    texts = {"mark": {"type": "text", "color": LIGHT["text"]}, "encoding": {"text": {"field": "text"}}}
    axes = {"x": category("x", "vocabulary size"), "y": category("y")}
    series = tuple(Series(name, [(x, value) for x, value, _ in row]) for name, row in listed)
    spec = _spec(_ROW * len(listed), axes, [cells, texts])
    return Figure("heat-map", table.title, table.note, series, {**spec, "data": {"values": values}})


def _spec(height: int, encoding: Encoding, layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return {**size, "encoding": encoding, "layer": layers}


def _row(name: str, *point: Any) -> dict[str, Any]:
    x, y = (printable(one) if isinstance(one, str) else one for one in point)
    return {"series": name, "x": x, "y": y}


def number(field: str, title: str, form: str = ",.3~f", *, zero: bool = False) -> Encoding:
    """Return an axis of numbers. zero: it begins there."""
    scale = {"zero": zero, "nice": True}
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": {"format": form, "tickCount": 6},
    }


def category(field: str, title: str | None = None) -> Encoding:
    """Return an axis of texts, in the order in which they come."""
    return {"field": field, "type": "nominal", "title": title, "sort": None, "axis": {"labelAngle": 0}}


def size(field: str, sizes: Iterable[int]) -> Encoding:
    """Return a logarithmic axis for these vocabulary sizes, with as many usual ones as ticks as fit."""
    listed = sorted(sizes)
    first = max(one for one in _USUAL_SIZES if one <= max(listed[0], _USUAL_SIZES[0]))
    usual = [one for one in _USUAL_SIZES if first <= one <= listed[-1] * 1.1] or [listed[-1]]
    ticks = usual[::-1][:: -(-len(usual) // _MOST_TICKS)][::-1]
    scale = {"type": "log", "domain": [first * 0.85, listed[-1] * 1.15], "nice": False}
    axis = {"values": ticks, "format": "~s"}
    return {"field": field, "type": "quantitative", "title": "vocabulary size", "scale": scale, "axis": axis}


def theme(font_pixels: int = 12) -> dict[str, Any]:
    """Return how all figures look; colours are variables of the page's style sheet."""
    of_text = {"labelFontSize": font_pixels, "titleFontSize": font_pixels, "labelColor": "var(--text)"}
    axis = {**of_text, "titleColor": "var(--text)", "titleFontWeight": "normal", "labelLimit": 140}
    axis |= {"labelOverlap": "greedy", "labelSeparation": 8}
    lines = dict.fromkeys(("gridColor", "domainColor", "tickColor"), "var(--grid)")
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "axis": {**axis, **lines},
        "legend": {**of_text, "orient": "top", "columns": 1, "labelLimit": 320, "symbolSize": 70},
        "point": {"filled": True, "size": 60, "opacity": 1},
        "bar": {"color": "var(--series-0)"},
        "line": {"strokeWidth": 2},
        "view": {"stroke": None},
    }
