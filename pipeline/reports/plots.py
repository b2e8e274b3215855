"""The plots of the page, as plotly figures in plain values; plotly itself is not imported.

plots.json describes each figure, and their template: colours are names of the page's style sheet, which the page's
script replaces. Here are their values and captions. A plot of vocabularies has a trace for each compared tokenizer.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.reports.numbers import MARKED_SIZES, Numbers, Shape

_MOST_BARS, _LONGEST = 16, 32
_COLOURS = ("var(--first)", "var(--second)", "var(--third)", "var(--fourth)")
_HEIGHT = 280
_MOST_TICKS = 6  # that fit on a telephone
_LEFT_OF_256 = 0.06  # of the axis of sizes, so that the tick 256 does not touch the other axis' 0
_LEAST_SHARE = 0.01  # per cent that the axis of shares begins with
Pairs = Sequence[tuple[Any, Any]]
Figure = dict[str, Any]


def page_plots(numbers: Numbers) -> dict[str, Figure]:
    """Return title, caption, data and layout of each plot by the id of its element; none without values."""
    merged, vocabulary = numbers.merged, numbers.vocabulary
    largest = merged.curve[-1].vocab_size
    names = [name for name, _ in numbers.tokenizers[: len(_COLOURS)]]
    curve = [(one.vocab_size, round(one.bytes_per_token, 4)) for one in merged.curve]
    saved = [
        (_short(one.vocab_size), round(one.saved * 100, 2))
        for one in merged.marked
        if one.saved is not None and one.vocab_size in MARKED_SIZES
    ]
    mean_length = vocabulary.bytes / max(vocabulary.tokens, 1)
    scripts = _most_frequent_scripts(numbers.shapes)
    shown: dict[str, tuple[dict[str, Pairs], str]] = {
        "size-curve": ({"": curve}, "On the training corpus, exact. The table has the values."),
        "gain": ({"": saved}, "Each bar compares a size with half of it."),
        "ranks": ({"": merged.ranks}, "How often each pair occurred when it was merged."),
        "lengths": (
            {name: _lengths(one) for name, one in zip(names, numbers.shapes, strict=False)},
            f"{mean_length:.2f} bytes on average, each token of this vocabulary counted once.",
        ),
        "scripts": (
            {name: _shares(one, scripts) for name, one in zip(names, numbers.shapes, strict=False)},
            "Shares of the vocabulary; the axis is logarithmic.",
        ),
    }
    described = json.loads(Path(__file__).with_name("plots.json").read_bytes())
    plots = {
        name: _plot(described["figures"][name], described["template"], *values)
        for name, values in shown.items()
        if any(values[0].values())
    }
    if numbers.sample is not None and len(names) > 1:
        _add_points(plots["size-curve"], names, numbers)
        largest = max(largest, *(size for _, size in numbers.tokenizers[: len(names)]))
    plots["size-curve"]["layout"]["xaxis"] |= _size_ticks(largest)
    plots["lengths"]["layout"]["xaxis"] |= {
        "tickvals": [1, 4, 8, 16, 24, _LONGEST],
        "ticktext": ["1", "4", "8", "16", "24", f"{_LONGEST} and<br>longer"],
    }
    plots["scripts"]["layout"]["height"] = 90 + (20 + 8 * len(names)) * len(scripts)
    return plots


def _add_points(curve: Figure, names: Sequence[str], numbers: Numbers) -> None:
    """Add each tokenizer on the sample to the curve of this one."""
    assert numbers.sample is not None
    trace = curve["data"][0] | {"mode": "markers"}
    for name, colour, (_, size), found in zip(
        names, _COLOURS, numbers.tokenizers, numbers.sample.tokenizers, strict=False
    ):
        point = {"x": [size], "y": [found.whole.bytes_per_token], "marker": {"color": colour, "size": 11}}
        curve["data"].append(trace | point | {"name": name.replace("<", "‹")})
    curve["data"][0]["showlegend"] = False
    curve["layout"]["showlegend"] = True
    curve["caption"] = "Line: on the training corpus, exact; the table has the values. Points: each on the sample."


def _size_ticks(largest: int) -> Figure:
    """Return ticks at sizes that people use, as many as fit, and the range of the axis."""
    usual = [size for size in (256, *MARKED_SIZES) if size <= largest * 1.1]
    every = -(-len(usual) // _MOST_TICKS)
    ticks = usual[::-1][::every][::-1]
    least, most = math.log10(256), math.log10(largest * 1.15)
    return {
        "tickvals": ticks,
        "ticktext": [_short(size) for size in ticks],
        "range": [least - (most - least) * _LEFT_OF_256, most],
    }


def _lengths(of: Shape) -> Pairs:
    """Return the share of tokens of each length in bytes, in per cent; the last is of all longer ones, too."""
    total = sum(of.lengths.values()) or 1
    counts = dict.fromkeys(range(1, min(max(of.lengths, default=1), _LONGEST) + 1), 0)
    for length, count in of.lengths.items():
        counts[max(min(length, _LONGEST), 1)] += count
    return [(length, round(100 * count / total, 3)) for length, count in counts.items()]


def _most_frequent_scripts(shapes: Sequence[Shape]) -> list[str]:
    """Return the scripts that some vocabulary has most of, the first vocabulary's first."""
    own = list(shapes[0].scripts)[:_MOST_BARS]
    others = [name for one in shapes[1:] for name in list(one.scripts)[: _MOST_BARS // 2]]
    return list(dict.fromkeys((*own, *others)))[:_MOST_BARS]


def _shares(of: Shape, scripts: Sequence[str]) -> Pairs:
    total = sum(of.scripts.values()) or 1
    return [(name, round(max(100 * of.scripts.get(name, 0) / total, _LEAST_SHARE), 3)) for name in scripts]


def _plot(figure: Figure, template: Figure, series: dict[str, Pairs], caption: str) -> Figure:
    traces = []
    for (name, rows), colour in zip(series.items(), _COLOURS, strict=False):
        trace = figure["trace"] | {"x": [one for one, _ in rows], "y": [value for _, value in rows]}
        trace |= {"name": name.replace("<", "‹"), "marker": {"color": colour}}  # plotly would interpret tags in names
        if trace.get("orientation") == "h":
            names = [one.replace("<", "‹") for one, _ in rows]
            trace |= {"x": trace["y"], "y": names}
        traces.append(trace)
    layout = {"height": _HEIGHT} | figure["layout"] | {"template": template, "showlegend": len(traces) > 1}
    return {"title": figure["title"], "caption": caption, "data": traces, "layout": layout}


def _short(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 and size % 1000 == 0 else f"{size:,}"
