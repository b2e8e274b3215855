"""Draw the charts as SVG: trainers compared on one corpus, on all corpora, and growth of time.

The same records and the same matplotlib produce the same bytes: committed charts change only with the figures. Charts
have no background; text and axes follow the theme of the site, or else the reader's preference for light or dark.
matplotlib (extra `[bench]`) is imported only here.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import comparison, kinds, ours, records
from benchmarks.corpora import size_text
from benchmarks.records import Record

OURS_COLOUR = "#1f6feb"
PEER_COLOUR = "#8c959f"
INK = "#1f2328"  # in a file: `currentColor`, which is one of the two that follow
_STYLE = (
    "<style>svg.chart{color:var(--md-default-fg-color,#1f2328)}"
    "@media (prefers-color-scheme:dark){svg.chart{color:var(--md-default-fg-color,#e6edf3)}}</style>"
)
LABELS = ("seconds", "peak memory")


def _figure(rows: int, columns: int, width: float, height: float, **how: Any) -> tuple[Any, Any, Any]:
    """(matplotlib, figure, array of axes) without a display, in a plain style, with reproducible SVG."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ValueError("plots need matplotlib: pip install '.[bench]'") from error
    mpl.use("svg")
    import matplotlib.pyplot
    import matplotlib.ticker

    mpl.rcParams.update(
        {
            "svg.hashsalt": "bpe-pipeline",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
        }
    )
    figure, axes = mpl.pyplot.subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout="constrained", **how
    )
    return mpl, figure, axes


def _save(mpl: Any, figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
    mpl.pyplot.close(figure)
    drawn = path.read_text("utf-8").replace(INK, "currentColor")
    head, _, rest = drawn[drawn.index("<svg ") :].partition(">")
    chart = head.replace("<svg ", '<svg class="chart" ', 1) + f">{_STYLE}{rest}"
    path.write_text("\n".join(line.rstrip() for line in chart.splitlines()) + "\n", "utf-8")


def draw_all(all_records: Sequence[Record], directory: Path) -> None:
    """Write trainers.svg, tools.svg and growth.svg, each only if something of its kind was measured."""
    groups = comparison.tasks(all_records)
    draw_tools(groups[:1], directory / "trainers.svg")
    draw_tools(groups, directory / "tools.svg")
    draw_growth(all_records, directory / "growth.svg")


def draw_tools(groups: Sequence[Sequence[Record]], path: Path) -> None:
    """Draw median time and peak memory by tool, a row for each task; what did not finish says why."""
    if not groups:
        return
    tasks = [(group, list(dict.fromkeys(one["tool"] for one in group))) for group in groups]
    heights = [0.9 + 0.27 * len(tools) for _, tools in tasks]
    mpl, figure, axes = _figure(len(tasks), 2, 9, sum(heights), height_ratios=heights)
    for row, (group, tools) in enumerate(tasks):
        for axis, field, label in zip(axes[row], ("wall_s", "peak_memory_bytes"), LABELS, strict=True):
            found = {tool: records.values(group, tool, field).values() for tool in tools}
            medians = {tool: statistics.median(values) if values else None for tool, values in found.items()}
            ordered = sorted(medians, key=lambda tool: medians[tool] or float("inf"), reverse=True)
            colours = [OURS_COLOUR if tool == ours.NAME else PEER_COLOUR for tool in ordered]
            drawn = axis.barh(ordered, [medians[tool] or 0 for tool in ordered], color=colours, height=0.7)
            reasons = {one["tool"]: one["reason"] for one in group}
            text = "{:.3g}".format if field == "wall_s" else size_text
            shown = [reasons[tool] if medians[tool] is None else text(medians[tool]) for tool in ordered]
            axis.bar_label(drawn, shown, padding=3)
            axis.xaxis.set_major_formatter("{x:g}" if field == "wall_s" else lambda x, _: size_text(x))
            axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(4))
            axis.margins(x=0.2)
            axis.set_xlabel(label)
        first = group[0]
        title = f"{comparison.name_of(group)}, pattern {first['pattern']}, vocabulary {first['vocab_size']:,}"
        axes[row][0].set_title(title, loc="left")
    _save(mpl, figure, path)


def draw_growth(all_records: Sequence[Record], path: Path) -> None:
    """Draw log-log curves of our time over bytes and over vocabulary, if there are any."""
    drawn = kinds.curves(all_records)
    if not drawn:
        return
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
