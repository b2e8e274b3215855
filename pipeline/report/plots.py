"""The plots of the page, as plotly figures in plain values; plotly itself is not imported.

plots.json describes each figure, and their template: colours are names of the page's style sheet, which the page's
script replaces. Here are their values and captions.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.base.units import format_bytes
from pipeline.report.numbers_worker import Numbers
from pipeline.report.tables import ReportHeader

_MOST_BARS, _LONGEST = 16, 32
Pairs = Sequence[tuple[Any, Any]]
Figure = dict[str, Any]


def page_plots(header: ReportHeader, numbers: Numbers) -> dict[str, Figure]:
    """Return title, caption, data and layout of each plot by the id of its element; no "times" if none are known."""
    merged, vocabulary = numbers.merged, numbers.vocabulary
    times = [(name, round(s, 3)) for name, s in header.stages.items() if s is not None]
    saved = [(_short(size.vocab_size), round(size.saved * 100, 2)) for size in merged.marked if size.saved is not None]
    curve, marked = (
        [(size.vocab_size, round(size.bytes_per_token, 4)) for size in sizes] for sizes in (merged.curve, merged.marked)
    )
    values = "; ".join(f"{size.vocab_size:,}: {size.bytes_per_token:.3f}" for size in merged.marked)
    ranks = merged.ranks
    scripts = list(vocabulary.scripts.items())
    if others := scripts[_MOST_BARS:]:
        scripts[_MOST_BARS:] = [(f"{len(others)} others", sum(count for _, count in others))]
    lengths = dict.fromkeys(range(1, min(max(vocabulary.lengths, default=1), _LONGEST) + 1), 0)
    for length, count in vocabulary.lengths.items():
        lengths[min(length, _LONGEST)] += count
    named_lengths = [(f"{length}+" if length == _LONGEST else str(length), count) for length, count in lengths.items()]
    mean_length = vocabulary.bytes / max(vocabulary.tokens, 1)
    shown: dict[str, tuple[Pairs, str]] = {
        "times": (times, _listed(times)),
        "size-curve": (curve, f"It grows with the size, ever more slowly: {values}."),
        "gain": (saved, _listed(saved, " %")),
        "ranks": (ranks, f"The first merge joins {ranks[0][1]:,} pairs, the last {ranks[-1][1]:,}." if ranks else ""),
        "lengths": (named_lengths, f"{mean_length:.2f} bytes on average, each token counted once."),
        "scripts": (scripts, _listed(scripts)),
    }
    described = json.loads(Path(__file__).with_name("plots.json").read_bytes())
    plots = {name: _plot(described["figures"][name], described["template"], *shown[name]) for name in shown}
    peaks = {name: f", peak {format_bytes(peak)}" for name, peak in header.stage_peak_bytes.items()}
    plots["times"]["data"][0]["customdata"] = [peaks.get(name, "") for name, _ in times]
    [line], layout = plots["size-curve"]["data"], plots["size-curve"]["layout"]
    marks = {"mode": "markers+text", "text": [_short(size) for size, _ in marked], **_columns(marked)}
    plots["size-curve"]["data"] = [line, line | marks]
    layout["xaxis"]["range"] = [math.log10(240), math.log10(curve[-1][0] * 1.25)]
    return {name: plot for name, plot in plots.items() if times or name != "times"}


def _plot(figure: Figure, template: Figure, rows: Pairs, caption: str) -> Figure:
    trace, layout = figure["trace"] | _columns(rows), figure["layout"] | {"template": template}
    if trace.get("orientation") == "h":
        names = [name.replace("<", "‹") for name in trace["x"]]  # plotly would interpret tags in names
        trace |= {"x": trace["y"], "y": names, "text": [f"{value:,}" for value in trace["y"]]}
        layout["height"] = 110 + 26 * len(rows)
    return {"title": figure["title"], "caption": caption, "data": [trace], "layout": layout}


def _columns(rows: Pairs) -> dict[str, list[Any]]:
    return {"x": [name for name, _ in rows], "y": [value for _, value in rows]}


def _listed(rows: Pairs, unit: str = "") -> str:
    return "; ".join(f"{name}: {value:,}{unit}" for name, value in rows)


def _short(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 and size % 1000 == 0 else f"{size:,}"
