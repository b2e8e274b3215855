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
_MEMORY = "peak_memory_bytes"
_LETTERS = 11
_STAGES = ("all", "counting", "merging")
_SHORT = {"tokenizers": "HF BpeTrainer", "sentencepiece": "SentencePiece"}


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


def _save(mpl: Any, figure: Any, path: Path, title: str, description: str) -> None:
    """Write a figure; the title and the description are for screen readers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
    mpl.pyplot.close(figure)
    drawn = path.read_text("utf-8").replace(INK, "currentColor")
    head, _, rest = drawn[drawn.index("<svg ") :].partition(">")
    said = f"<title>{title}</title><desc>{description}</desc>"
    chart = head.replace("<svg ", '<svg class="chart" role="img" ', 1) + f">{said}{_STYLE}{rest}"
    path.write_text("\n".join(line.rstrip() for line in chart.splitlines()) + "\n", "utf-8")


def draw_all(all_records: Sequence[Record], directory: Path) -> None:
    """Write trainers.svg, tools.svg and growth.svg, each only if something of its kind was measured."""
    groups = comparison.tasks(all_records)
    draw_trainers(groups[:1], directory / "trainers.svg")
    draw_tools(groups, directory / "tools.svg")
    draw_growth(all_records, directory / "growth.svg")


def draw_trainers(groups: Sequence[Sequence[Record]], path: Path) -> None:
    """Draw the time of each trainer on one corpus, with its memory as a number, first those of the same merges.

    Readable at the width of a phone: few words, large letters, and no axis, since each bar has its number.
    """
    if not groups:
        return
    [group] = groups
    medians = {
        tool: [statistics.median(records.values(group, tool, field).values()) for field in ("wall_s", _MEMORY)]
        for tool in dict.fromkeys(one["tool"] for one in group if one["status"] == "ok")
    }
    same = comparison.same_merges(group) | {ours.NAME}
    alike, others = ([tool for tool in medians if (tool in same) == wanted] for wanted in (True, False))
    captions = ("the same merges as BpeTrainer", alike), ("other merges", others)
    rows = [(caption, sorted(tools, key=lambda tool: medians[tool][0])) for caption, tools in captions if tools]
    mpl, figure, axes = _figure(1, 1, 5.2, 0.5 + 0.34 * (len(medians) + 1.2 * len(rows)))
    axis, most = axes[0][0], max(seconds for seconds, _ in medians.values())
    height, fastest = 0.0, medians[ours.NAME][0]
    for caption, tools in rows:
        height -= 1.2
        axis.text(-0.62 * most, height, caption, style="italic", fontsize=_LETTERS - 2, va="center")
        for tool in tools:
            height -= 1
            seconds, memory = medians[tool]
            colour = OURS_COLOUR if tool == ours.NAME else PEER_COLOUR
            axis.barh(height, seconds, 0.7, color=colour, hatch="" if tool in same else "//", edgecolor="white", lw=0)
            times = "" if tool == ours.NAME else f" · {seconds / fastest:.0f}×"
            weight = "bold" if tool == ours.NAME else "normal"
            how: dict[str, Any] = {"va": "center", "fontsize": _LETTERS, "weight": weight}
            axis.text(-0.62 * most, height, _SHORT.get(tool, tool), **how)
            axis.text(seconds + 0.02 * most, height, f"{seconds:.3g} s{times}", **how)
            axis.text(1.75 * most, height, size_text(memory), ha="right", **how)
    axis.set_xlim(-0.62 * most, 1.75 * most)
    axis.set_ylim(height - 0.6, -0.4)
    axis.axis("off")
    size, tokens = size_text(group[0]["corpus_bytes"]), f"{group[0]['vocab_size']:,} tokens"
    cores = group[0]["machine"]["usable_cores"]
    figure.suptitle(
        f"Time and memory: {tokens} from {size}, {cores} cores", fontsize=_LETTERS, weight="bold", x=0.02, ha="left"
    )
    _save(mpl, figure, path, f"Training time and peak memory of {len(medians)} trainers", _said(medians))


def _said(medians: dict[str, list[float]]) -> str:
    """Return what a chart shows, for those who do not see it."""
    ordered = sorted(medians.items(), key=lambda item: item[1])
    return "; ".join(f"{tool}: {seconds:.3g} s, {size_text(memory)}" for tool, (seconds, memory) in ordered)


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
    said = [
        f"{comparison.name_of(group)}: {tool} {comparison.cell(group, tool)}"
        for group, tools in tasks
        for tool in tools
    ]
    _save(mpl, figure, path, "Training time and peak memory by trainer and corpus", "; ".join(said))


def draw_growth(all_records: Sequence[Record], path: Path) -> None:
    """Draw log-log curves of our time over bytes, a panel for each corpus; slopes are in the table."""
    curves = kinds.curves(all_records)
    drawn = [curve for curve in curves if curve.over == "corpus_bytes" and curve.stage in _STAGES]
    corpora = list(dict.fromkeys(curve.corpus for curve in drawn))
    if not drawn:
        return
    mpl, figure, axes = _figure(1, len(corpora), 9, 3.4, sharey=True)
    for axis, corpus in zip(axes[0], corpora, strict=True):
        curves = sorted((curve for curve in drawn if curve.corpus == corpus), key=lambda curve: curve.points[-1][1])
        for curve, side in zip(curves, ("top", "bottom", "center"), strict=False):
            xs, ys = zip(*curve.points, strict=True)
            style, colour = ("-o", OURS_COLOUR) if curve.stage == "all" else ("--.", INK)
            axis.loglog(xs, ys, style, color=colour, markersize=4, linewidth=1.2)
            axis.annotate(curve.stage, (xs[-1], ys[-1]), xytext=(6, 0), textcoords="offset points", va=side)
        ticks = sorted({x for curve in curves for x, _ in curve.points})
        axis.set_xticks(ticks, [f"{x / 1e6:.0f}" for x in ticks])
        axis.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_locator(mpl.ticker.NullLocator())
        axis.set_xlim(right=1.9 * max(ticks))
        axis.set_xlabel("MB of the corpus")
        axis.set_ylabel("seconds")
        axis.set_title(corpus, loc="left")
    said = [f"{one.corpus}, {one.stage}: slope {one.slope:.2f}" for one in drawn]
    _save(mpl, figure, path, "Growth of time with the size of the corpus", "; ".join(said))
