"""Figures as files that a paper takes: SVG and PDF at the width of a column, drawn by matplotlib, and tables as CSV.

The same figures give the same bytes with the same matplotlib.
"""

import base64
import csv
import io
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.reports.figure import (
    COLOURS,
    DASHES,
    MARKED_POINTS,
    MARKERS,
    Axis,
    Figure,
    Series,
    marker_of,
)
from bpe_pipeline.reports.page import light_colours
from bpe_pipeline.reports.parts import Table, escaped
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import make_directory, single_output, write_whole

_WIDTH, _HEIGHT, _ROW = 3.35, 2.3, 0.17  # inches: of a column, and of a row of dots or cells
_STYLE = {
    "font.size": 7,
    "axes.titlesize": 7,
    "legend.fontsize": 6.5,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "svg.hashsalt": "bpe-pipeline",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def require_figures(where: Location, *, overwrite: bool = False) -> Location:
    """Return the directory for figures. Raises `UsageError` without matplotlib, `RunDirectoryError` for a file or a
    directory that has files, unless `overwrite`."""
    if find_spec("matplotlib") is None:
        raise UsageError("figures are drawn with matplotlib; install it: pip install 'bpe-pipeline[report]'")
    if isinstance(where, Path) and where.exists():
        if not where.is_dir():
            raise RunDirectoryError(f"{where} is not a directory; name another one for the figures")
        if not overwrite and any(where.iterdir()):
            raise RunDirectoryError(f"{where} is not empty; name another directory, or write into it with --overwrite")
    return where


def write_figures(
    where: Location, figures: Sequence[Figure], tables: Iterable[Table] = (), *, overwrite: bool = False
) -> tuple[Location, ...]:
    """Write each figure as ID.svg, ID.pdf and ID.csv, and each table by its title as CSV."""
    files: dict[str, bytes] = {}
    for figure in figures:
        files |= {f"{figure.id}.{form}": drawn(figure, form) for form in ("svg", "pdf")}
        files[f"{figure.id}.csv"] = _csv(figure.rows())
    for table in tables:
        name = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
        files[f"table-{name}.csv"] = _csv([table.headers, *table.rows])
    make_directory(require_figures(where, overwrite=overwrite))
    paths = {single_output(where / name, overwrite=overwrite): data for name, data in files.items()}
    for path, data in paths.items():
        write_whole(path, data)
    return tuple(paths)


def images(figures: Sequence[Figure]) -> str:
    """Return figures as images for a notebook; nothing without matplotlib."""
    drawings = figures if find_spec("matplotlib") is not None else ()
    listed = ((escaped(one.title), base64.b64encode(drawn(one, "svg")).decode()) for one in drawings)
    start = '<img style="background: white"'
    return "".join(f'{start} alt="{title}" src="data:image/svg+xml;base64,{data}">' for title, data in listed)


def _csv(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(["" if one is None else one for one in row] for row in rows)
    return text.getvalue().encode(errors="replace")


def drawn(figure: Figure, form: str) -> bytes:
    """Return a figure as a file: `svg` or `pdf`."""
    matplotlib, canvases = import_module("matplotlib"), import_module("matplotlib.figure")
    colours, data = light_colours(), io.BytesIO()
    with matplotlib.rc_context(_STYLE | {"grid.color": colours["grid"], "text.color": colours["text"]}):
        height = 0.7 + _ROW * len(figure.categories(1)) if figure.kind == "dots" else _HEIGHT
        legend = figure.has_legend * 0.13 * len(figure.series)
        canvas = canvases.Figure(figsize=(_WIDTH, height + legend), layout="constrained")
        axes = canvas.add_subplot()
        for one, style in figure.styled():
            _draw_series(axes, figure, one, style, colours[COLOURS[style % len(COLOURS)]])
        _set_axis(axes, "x", figure.x)
        _set_axis(axes, "y", figure.y)
        if figure.kind == "dots":
            axes.invert_yaxis()
        if figure.has_legend:
            canvas.legend(
                loc="outside upper left", ncols=2 if max(len(line.name) for line in figure.series) < 24 else 1
            )
        stamp = {"Date": None} if form == "svg" else {"CreationDate": None}
        canvas.savefig(data, format=form, metadata=stamp)
    return data.getvalue()


def _draw_series(axes: Any, figure: Figure, one: Series, style: int, colour: str) -> None:
    if not one.points:
        return
    xs, ys = (list(values) for values in zip(*one.points, strict=True))
    label = one.name or "_"
    if figure.kind == "bars":
        axes.bar(xs, ys, figure.bar_width, color=colour, label=label)
        return
    joined = figure.kind == "lines" and not one.alone
    marked = not joined or len(one.points) <= MARKED_POINTS
    marker = MARKERS[marker_of(style)][1] if marked else None
    line = DASHES[style % len(DASHES)][1] if joined else "none"
    size = {"fillstyle": "none"} if style else {}
    axes.plot(xs, ys, color=colour, marker=marker, linestyle=line, label=label, **size)


def _set_axis(axes: Any, name: str, axis: Axis) -> None:
    set_ = {what: getattr(axes, f"set_{name}{what}") for what in ("label", "scale", "ticks", "lim")}
    set_["label"](axis.label)
    if axis.scale == "log":
        set_["scale"]("log")
    if axis.scale == "log" or axis.form == ",.0f":  # not "1e6"
        getattr(axes, f"{name}axis").set_major_formatter(lambda value, _: format(value, axis.form))
    if axis.ticks:
        set_["ticks"]([at for at, _ in axis.ticks], [text.replace("<br>", "\n") for _, text in axis.ticks])
        set_["ticks"]([], minor=True)
    if axis.zero:
        set_["lim"](**{"left" if name == "x" else "bottom": 0})
    if axis.limits is not None:
        set_["lim"](*axis.limits)
    if axis.mark is not None:
        axes.axvline(axis.mark, color="0.3", linestyle="--", linewidth=0.8)
