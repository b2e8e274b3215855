"""The plots of the page, as plotly figures in plain values; plotly itself is not imported.

plots.json is their template: colours are names of the page's style sheet, which the page's script replaces.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.units import format_bytes
from pipeline.report.numbers import MARKED_SIZES, MergeNumbers, Numbers
from pipeline.report.tables import ReportHeader

_MOST_BARS, _LONGEST = 16, 32
Pairs = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Plot:
    """A plotly figure. name: id of its element; caption: screen readers announce it, too."""

    name: str
    title: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]


def page_plots(header: ReportHeader, numbers: Numbers) -> list[Plot]:
    """Return all plots; without "times" if no stage was timed."""
    merged, vocabulary = numbers.merged, numbers.vocabulary
    times = [(name, round(s, 3)) for name, s in header.stages.items() if s is not None]
    peaks = {name: f", peak {format_bytes(peak)}" for name, peak in header.stage_peak_bytes.items()}
    saved = [(_short(size.vocab_size), round(size.saved * 100, 2)) for size in merged.marked if size.saved is not None]
    scripts = list(vocabulary.scripts.items())
    if others := scripts[_MOST_BARS:]:
        scripts[_MOST_BARS:] = [(f"{len(others)} others", sum(count for _, count in others))]
    lengths = dict.fromkeys(range(1, min(max(vocabulary.lengths, default=1), _LONGEST) + 1), 0)
    for length, count in vocabulary.lengths.items():
        lengths[min(length, _LONGEST)] += count
    named_lengths = [(f"{length}+" if length == _LONGEST else str(length), count) for length, count in lengths.items()]
    mean_length = vocabulary.bytes / max(vocabulary.tokens, 1)
    ranks, log = merged.ranks, {"type": "log", "dtick": 1}
    plots = [
        Plot("times", "Time by stage", _listed(times),
             [{**_bars_across(times, "%{y}: %{x} s%{customdata}"),
               "customdata": [peaks.get(name, "") for name, _ in times]}],
             _layout_across("seconds", times)),
        _size_curve(merged),
        Plot("gain", "What doubling the vocabulary saves", _listed(saved, " %"),
             [_trace("bar", saved, "%{x} instead of half of it: %{y} % fewer tokens")],
             _layout("vocabulary size", "% fewer tokens than at half the size", {"type": "category"})),
        Plot("ranks", "Count of each merge against its rank",
             f"The first merge joins {ranks[0][1]:,} pairs, the last {ranks[-1][1]:,}." if ranks else "",
             [_trace("scatter", ranks, "merge %{x:,}: %{y:,} times", mode="lines")],
             _layout("rank of the merge", "count", log, log)),
        Plot("lengths", "Token lengths", f"{mean_length:.2f} bytes on average, each token counted once.",
             [_trace("bar", named_lengths, "%{x} bytes: %{y:,} tokens")],
             _layout("bytes of the token", "tokens", {"type": "category", "tickangle": 0, "nticks": 9})),
        Plot("scripts", "Tokens by script", _listed(scripts), [_bars_across(scripts, "%{y}: %{x:,} tokens")],
             _layout_across("tokens", scripts)),
    ]  # fmt: skip
    return plots if times else plots[1:]


def _size_curve(merged: MergeNumbers) -> Plot:
    hover = "%{x:,} tokens: %{y:.3f} bytes each"
    line, marks = (
        _trace("scatter", [(size.vocab_size, round(size.bytes_per_token, 4)) for size in sizes], hover, mode=mode)
        for sizes, mode in ((merged.curve, "lines"), (merged.marked, "markers+text"))
    )
    marks["text"] = [_short(size.vocab_size) for size in merged.marked]
    values = "; ".join(f"{size.vocab_size:,}: {size.bytes_per_token:.3f}" for size in merged.marked)
    ticks = [256, 1000, 4000, *MARKED_SIZES[1::2]]
    axis = {"type": "log", "tickvals": ticks, "ticktext": list(map(_short, ticks))}
    axis["range"] = [math.log10(240), math.log10(merged.curve[-1].vocab_size * 1.25)]
    layout = _layout("vocabulary size", "bytes per token", axis, {"rangemode": "tozero"})
    caption = f"It grows with the size, ever more slowly: {values}."
    return Plot("size-curve", "Bytes per token against vocabulary size", caption, [line, marks], layout)


def _listed(rows: Pairs, unit: str = "") -> str:
    return "; ".join(f"{name}: {value:,}{unit}" for name, value in rows)


def _trace(kind: str, rows: Pairs, hover: str, **more: Any) -> dict[str, Any]:
    x, y = [name for name, _ in rows], [value for _, value in rows]
    return {"type": kind, "x": x, "y": y, "hovertemplate": f"{hover}<extra></extra>", **more}


def _bars_across(rows: Pairs, hover: str) -> dict[str, Any]:
    values = [(value, name.replace("<", "‹")) for name, value in rows]  # plotly would interpret tags in names
    labels = [f"{value:,}" for value, _ in values]
    return _trace("bar", values, hover, orientation="h", text=labels, textposition="outside")


def _layout(x: str, y: str, xaxis: dict[str, Any], yaxis: dict[str, Any] | None = None) -> dict[str, Any]:
    axes = {"xaxis": {"title": {"text": x}, **xaxis}, "yaxis": {"title": {"text": y}, **(yaxis or {})}}
    return {"template": json.loads(Path(__file__).with_name("plots.json").read_bytes()), **axes}


def _layout_across(x: str, rows: Pairs) -> dict[str, Any]:
    layout = _layout(x, "", {"nticks": 6}, {"type": "category", "autorange": "reversed"})
    return layout | {"height": 110 + 26 * len(rows)}


def _short(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 and size % 1000 == 0 else f"{size:,}"
