"""Draws the two plots, time and memory by tool, and growth, as SVG. matplotlib (extra `[bench]`) is imported
here only.

The same records and the same matplotlib give the same bytes: committed images change only when figures do.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import growth, ours, records
from benchmarks.corpora import size_text
from benchmarks.records import Record

OURS_COLOUR = "#1f6feb"
PEER_COLOUR = "#8c959f"
LABELS = ("seconds", "peak memory")


def _figure(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any, Any]:
    """(matplotlib, figure, array of axes) without a display, in a plain style, with reproducible SVG."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ValueError("plots need matplotlib: pip install '.[bench]', or pass --no-plots") from error
    mpl.use("svg")
    import matplotlib.pyplot
    import matplotlib.ticker

    mpl.rcParams.update(
        {
            "svg.hashsalt": "bpe-pipeline",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    figure, axes = mpl.pyplot.subplots(rows, columns, figsize=(width, height), squeeze=False, layout="constrained")
    return mpl, figure, axes


def _save(mpl: Any, figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})
    mpl.pyplot.close(figure)
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n", "utf-8")


def draw_tools(all_records: Sequence[Record], path: Path) -> bool:
    """Bars of median time and peak memory by tool, one row a task; False when nothing finished."""
    tasks = []
    for key, group in records.latest(all_records).items():
        finished = list(dict.fromkeys(r["tool"] for r in group if r["status"] == "ok"))
        if finished:
            tasks.append((key, group, finished))
    if not tasks:
        return False
    bars = sum(len(tools) for _, _, tools in tasks)
    mpl, figure, axes = _figure(len(tasks), 2, 9, 0.9 * len(tasks) + 0.27 * bars)
    for row, ((corpus, pattern, vocab_size), group, tools) in enumerate(tasks):
        for axis, field, label in zip(axes[row], ("wall_s", "peak_memory_bytes"), LABELS, strict=True):
            medians = {tool: statistics.median(records.values(group, tool, field).values()) for tool in tools}
            ordered = sorted(medians, key=lambda tool: medians[tool], reverse=True)
            colours = [OURS_COLOUR if tool == ours.NAME else PEER_COLOUR for tool in ordered]
            drawn = axis.barh(ordered, [medians[tool] for tool in ordered], color=colours, height=0.7)
            axis.bar_label(drawn, fmt="{:.3g}" if field == "wall_s" else size_text, padding=3)
            axis.xaxis.set_major_formatter("{x:g}" if field == "wall_s" else lambda x, _: size_text(x))
            axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(4))
            axis.margins(x=0.2)
            axis.set_xlabel(label)
        axes[row][0].set_title(f"{corpus}, {pattern}, vocabulary {vocab_size:,}", loc="left")
    _save(mpl, figure, path)
    return True


def draw_growth(all_records: Sequence[Record], path: Path) -> bool:
    """Log-log curves of our time over bytes and over vocabulary; False when there are none."""
    drawn = [curve for curve in growth.curves(all_records) if curve.slope is not None]
    if not drawn:
        return False
    mpl, figure, axes = _figure(1, 2, 9, 3.6)
    labels = (("corpus_bytes", "corpus"), ("vocab_size", "vocabulary size"))
    for axis, (over, label) in zip(axes[0], labels, strict=True):
        for curve in drawn:
            if curve.over == over:
                xs, ys = zip(*curve.points, strict=True)
                style = "-o" if curve.stage == "all" else "--."
                name = f"{curve.corpus}: {curve.stage}, slope {curve.slope:.2f}"
                axis.loglog(xs, ys, style, markersize=4, linewidth=1.2, label=name)
        ticks = sorted({x for curve in drawn if curve.over == over for x, _ in curve.points})
        axis.set_xticks(ticks, [size_text(x) if over == "corpus_bytes" else f"{x:,.0f}" for x in ticks])
        axis.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_locator(mpl.ticker.NullLocator())
        axis.set_xlabel(label)
        axis.set_ylabel("seconds")
        if axis.lines:
            axis.legend(fontsize=7, frameon=False)
        else:
            axis.set_visible(False)
    _save(mpl, figure, path)
    return True
