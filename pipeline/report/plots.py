"""The plots of the page, as figures that plotly draws: plain values, no library is imported here.

Colours are variables of the page's style sheet, which the page puts in place for light and dark.
"""

import math
from dataclasses import dataclass
from typing import Any

from pipeline.base.units import format_bytes
from pipeline.report.merged import MARKED
from pipeline.report.numbers import Numbers
from pipeline.report.rows import Told

_MOST_BARS = 16
_FIRST, _SECOND, _GRID, _TEXT = "var(--first)", "var(--second)", "var(--grid)", "var(--text)"


@dataclass(frozen=True)
class Plot:
    """A figure of plotly's. name: of its element; told: what a reader who cannot see it should know."""

    name: str
    title: str
    told: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]


def size_curve(numbers: Numbers) -> Plot:
    """Bytes per token against vocabulary size, with the usual sizes marked."""
    curve, marked = numbers.merged.curve, numbers.merged.marked
    line = _line([size.vocab_size for size in curve], [round(size.bytes_per_token, 4) for size in curve])
    points = {
        **_line([size.vocab_size for size in marked], [round(size.bytes_per_token, 4) for size in marked]),
        "mode": "markers+text",
        "text": [_short(size.vocab_size) for size in marked],
        "textposition": "top left",
        "textfont": {"color": _TEXT},
        "marker": {"color": _SECOND, "size": 9},
    }
    told = "; ".join(f"{size.vocab_size:,}: {size.bytes_per_token:.3f}" for size in marked)
    ticks = [256, 1000, 4000, *MARKED[1::2]]
    ends = [math.log10(240), math.log10(curve[-1].vocab_size * 1.25)]
    axis = {"type": "log", "range": ends, "tickvals": ticks, "ticktext": [_short(size) for size in ticks]}
    layout = _layout("vocabulary size", "bytes per token", xaxis=axis, yaxis={"rangemode": "tozero"})
    hover = "%{x:,} tokens: %{y:.3f} bytes each<extra></extra>"
    return Plot(
        "size-curve",
        "Bytes per token against vocabulary size",
        f"It grows with the size, ever more slowly: {told}.",
        [{**line, "hovertemplate": hover}, {**points, "hovertemplate": hover}],
        layout,
    )


def gain(numbers: Numbers) -> Plot:
    """What doubling the vocabulary saves."""
    sizes = [size for size in numbers.merged.marked if size.saved is not None]
    names = [_short(size.vocab_size) for size in sizes]
    saved = [round((size.saved or 0) * 100, 2) for size in sizes]
    told = "; ".join(f"{name}: {share} %" for name, share in zip(names, saved, strict=True))
    bars = {**_bars(names, saved), "hovertemplate": "%{x} instead of half of it: %{y} % fewer tokens<extra></extra>"}
    layout = _layout("vocabulary size", "% fewer tokens than at half the size", xaxis={"type": "category"})
    return Plot("gain", "What doubling the vocabulary saves", told, [bars], layout)


def ranks(numbers: Numbers) -> Plot:
    """The count of each merge against its rank, both logarithmic."""
    points = numbers.merged.ranks
    line = _line([rank for rank, _ in points], [count for _, count in points])
    line["hovertemplate"] = "merge %{x:,}: %{y:,} times<extra></extra>"
    told = f"The first merge stands for {points[0][1]:,} pairs, the last for {points[-1][1]:,}." if points else ""
    layout = _layout("rank of the merge", "count", xaxis={"type": "log", "dtick": 1}, yaxis={"type": "log", "dtick": 1})
    return Plot("ranks", "Count of each merge against its rank", told, [line], layout)


def lengths(numbers: Numbers) -> Plot:
    """How many tokens have how many bytes; from 32 bytes on together."""
    found = numbers.vocabulary.lengths
    most = 32
    names = [str(length) for length in range(1, most)] + [f"{most}+"]
    counts = [found.get(length, 0) for length in range(1, most)]
    counts.append(sum(count for length, count in found.items() if length >= most))
    while len(counts) > 1 and not counts[-1]:
        counts.pop()
    mean = numbers.vocabulary.bytes / max(numbers.vocabulary.tokens, 1)
    bars = {**_bars(names[: len(counts)], counts), "hovertemplate": "%{x} bytes: %{y:,} tokens<extra></extra>"}
    layout = _layout("bytes of the token", "tokens", xaxis={"type": "category", "tickangle": 0, "nticks": 9})
    return Plot("lengths", "Token lengths", f"{mean:.2f} bytes on average, each token once.", [bars], layout)


def scripts(numbers: Numbers) -> Plot:
    """Tokens by script."""
    listed = list(numbers.vocabulary.scripts.items())
    shown = listed[:_MOST_BARS]
    if len(listed) > len(shown):
        shown.append((f"{len(listed) - len(shown)} others", sum(count for _, count in listed[_MOST_BARS:])))
    told = "; ".join(f"{name}: {count:,}" for name, count in shown)
    layout = _layout("tokens", "", xaxis={"nticks": 5}, yaxis={"type": "category", "autorange": "reversed"})
    layout["height"] = 110 + 24 * len(shown)
    return Plot("scripts", "Tokens by script", told, [_across(shown, "%{y}: %{x:,} tokens")], layout)


def times(told: Told) -> Plot | None:
    """Seconds by stage; None where no stage was timed."""
    timed = [(name, round(s, 3)) for name, s in told.summary.get("stages", {}).items() if s is not None]
    if not timed:
        return None
    peaks = told.summary.get("stage_peak_bytes", {})
    layout = _layout("seconds", "", xaxis={"nticks": 6}, yaxis={"type": "category", "autorange": "reversed"})
    layout["height"] = 110 + 28 * len(timed)
    bars = _across(timed, "%{y}: %{x} s%{customdata}")
    bars["customdata"] = [f", peak {format_bytes(peaks[name])}" if name in peaks else "" for name, _ in timed]
    return Plot("times", "Time by stage", "; ".join(f"{name}: {s} s" for name, s in timed), [bars], layout)


def _line(x: list[Any], y: list[Any]) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": {"color": _FIRST, "width": 2.5}}


def _bars(x: list[Any], y: list[Any]) -> dict[str, Any]:
    return {"type": "bar", "x": x, "y": y, "marker": {"color": _FIRST}}


def _across(rows: list[tuple[str, Any]], hover: str) -> dict[str, Any]:
    """Bars from the left, with names in the order of the rows. Names are data: plotly would read tags in them."""
    names, values = [name.replace("<", "‹") for name, _ in rows], [value for _, value in rows]
    bars = {**_bars(values, names), "orientation": "h", "hovertemplate": f"{hover}<extra></extra>"}
    return {**bars, "text": [f"{value:,}" for value in values], "textfont": {"color": _TEXT}, "textposition": "outside",
            "cliponaxis": False}  # fmt: skip


def _layout(x: str, y: str, xaxis: dict[str, Any] | None = None, yaxis: dict[str, Any] | None = None) -> dict[str, Any]:
    def axis(title: str, more: dict[str, Any] | None) -> dict[str, Any]:
        lines = {"gridcolor": _GRID, "zerolinecolor": _GRID, "linecolor": _GRID, "automargin": True, "fixedrange": True}
        return {"title": {"text": title, "standoff": 10}, **lines, **(more or {})}

    return {
        "xaxis": axis(x, xaxis),
        "yaxis": axis(y, yaxis),
        "font": {"color": _TEXT, "size": 12, "family": "system-ui, sans-serif"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": _GRID, "font": {"color": _TEXT}},
        "margin": {"l": 8, "r": 56, "t": 16, "b": 8},
        "height": 320,
        "showlegend": False,
        "dragmode": False,
        "bargap": 0.2,
    }


def _short(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 and size % 1000 == 0 else f"{size:,}"
