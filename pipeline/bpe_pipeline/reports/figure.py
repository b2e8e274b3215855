"""A figure is a specification of Vega-Lite, with the numbers that it draws: the page and `drawing.py` draw it.

Series differ by colour and marker: they can be distinguished in grey, and by people who are colour-blind (Okabe and
Ito's colours). `templates/theme.json` has the colours of the page, light and dark, and how all figures look.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpe_pipeline.base.printable import printable
from bpe_pipeline.reports.parts import Table

THEME: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "templates" / "theme.json").read_bytes())
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
    legend = {"title": None} if len(names) > 1 else None
    by_series = {"field": "series", "type": "nominal", "legend": legend, "scale": {"domain": names}}
    encoding = {"x": axes[0], "y": axes[1], "color": by_series}
    layers = [
        _layer("line", [one for one in series if one.joined], {}),
        _layer(
            mark,
            [one for one in series if len(one.points) <= _MARKED_POINTS],
            {"shape": by_series} if mark == "point" else {},
        ),
    ]
    drawn = [layer for layer in layers if layer["data"]["values"]]
    rows = len({y for one in series for _, y in one.points}) if axes[1]["type"] == "nominal" else 0
    return Figure(id_, title, note, tuple(series), _spec(_ROW * rows or _HEIGHT, encoding, drawn))


def _layer(mark: str, series: Sequence[Series], encoding: Encoding) -> dict[str, Any]:
    values = [_printable({"series": one.name, "x": x, "y": y}) for one in series for x, y in one.points]
    return {"data": {"values": values}, "mark": {"type": mark, "tooltip": True}, "encoding": encoding}


def heat_map(table: Table) -> Figure:
    """Return the fractions of a table as a figure: its rows and columns, darker where they are greater."""
    columns = table.headers[1:]
    series = tuple(Series(str(row[0]), [*zip(columns, row[1:], strict=True)]) for row in table.rows)
    values = [
        _printable({"y": one.name, "x": x, "value": value, "text": text})
        for one, (_, *texts) in zip(series, table.texts(), strict=True)
        for (x, value), text in zip(one.points, texts, strict=True)
    ]
    shade = {"field": "value", "type": "quantitative", "legend": None, "scale": {"scheme": _HEAT}}
    cells = {"mark": {"type": "rect", "tooltip": True}, "encoding": {"color": shade}}
    texts = {"mark": {"type": "text", "color": THEME["light"]["text"]}, "encoding": {"text": {"field": "text"}}}
    axes = {"x": category("x", "vocabulary size"), "y": category("y")}
    spec = {**_spec(_ROW * len(series), axes, [cells, texts]), "data": {"values": values}}
    return Figure("heat-map", table.title, table.note, series, spec)


def _spec(height: int, encoding: Encoding, layers: Sequence[Encoding]) -> dict[str, Any]:
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return {**size, "encoding": encoding, "layer": layers}


def _printable(row: Mapping[str, Any]) -> dict[str, Any]:
    return {field: printable(value) if isinstance(value, str) else value for field, value in row.items()}


def number(field: str, title: str, *, zero: bool = False) -> Encoding:
    """Return an axis of numbers. zero: it begins there."""
    axis = {"format": ",.3~f"}
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": zero}, "axis": axis}


def category(field: str, title: str | None = None) -> Encoding:
    """Return an axis of texts, in the order in which they come."""
    return {"field": field, "type": "nominal", "title": title, "sort": None}


def size(field: str, sizes: Iterable[int]) -> Encoding:
    """Return a logarithmic axis for these vocabulary sizes, with as many usual ones as ticks as fit."""
    listed = sorted(sizes)
    least, most = listed[0], listed[-1]
    usual = [one for one in _USUAL_SIZES if least <= one <= most] or [most]
    scale = {"type": "log", "domain": [least * 0.85, most * 1.15], "nice": False}
    axis = {"values": usual[:: -len(usual) // _MOST_TICKS], "format": "~s"}
    return {"field": field, "type": "quantitative", "title": "vocabulary size", "scale": scale, "axis": axis}
