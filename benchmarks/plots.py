"""Draw the charts as SVG: trainers compared on one corpus, on all corpora, and growth of time.

The same records and the same matplotlib produce the same bytes: committed charts change only with the figures. Charts
have no background; text and axes follow the theme of the site, or else the reader's preference for light or dark.
matplotlib (extra `[bench]`) is imported only here.
"""

import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import comparison, kinds, ours, records
from benchmarks.records import Record

OURS_COLOUR = "#1f6feb"
PEER_COLOUR = "#8c959f"
INK = "#1f2328"  # in a file: `currentColor`, which is one of the two that follow
_STYLE = (
    "<style>svg.chart{color:var(--md-default-fg-color,#1f2328)}"
    "@media (prefers-color-scheme:dark){svg.chart{color:var(--md-default-fg-color,#e6edf3)}}</style>"
)
_CAPTIONS = ("the merges of documents, as BpeTrainer's", "the merges of lines", "other merges", "not finished")
_OF = dict(zip(ours.HOW, _CAPTIONS, strict=False))  # each group with a bar of ours
_LETTERS = 11
_STAGES = ("all", "counting", "merging")
_SHORT = {ours.BY_LINES: "by lines", "tokenizers": "HF BpeTrainer", "sentencepiece": "SentencePiece"}


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
            "font.size": _LETTERS,
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
    draw_trainers(groups, directory / "tools.svg")
    draw_growth(all_records, directory / "growth.svg")


def draw_trainers(groups: Sequence[Sequence[Record]], path: Path) -> None:
    """Draw the time of each trainer, a panel for each task, with its memory as a number.

    Readable at the width of a phone: few words, large letters, and no axis, since each bar has its number.
    """
    if not groups:
        return
    panels = [(group, _captions(group)) for group in groups]
    heights = [0.8 + 0.34 * (sum(map(len, found.values())) + 1.2 * len(found)) for _, found in panels]
    mpl, figure, axes = _figure(len(panels), 1, 5.2, sum(heights), height_ratios=heights)
    figure.get_layout_engine().set(hspace=0.15 if len(panels) > 1 else None)
    for [axis], (group, captions) in zip(axes, panels, strict=True):
        _draw_panel(axis, group, captions)
    tools = sorted({tool for _, captions in panels for tools in captions.values() for tool in tools})
    said = [
        f"{comparison.name_of(group)}: {tool} {comparison.cell(group, tool)}"
        for group, captions in panels
        for tools in captions.values()
        for tool in tools
    ]
    _save(mpl, figure, path, f"Training time and peak memory of {len(tools)} trainers", "; ".join(said))


def _captions(group: Sequence[Record]) -> dict[str, list[str]]:
    """Return the trainers of a task by what they learned, the fastest first."""
    same, found = comparison.same_merges(group), dict[str, list[str]]()
    done = {tool: records.values(group, tool, "wall_s").values() for tool in comparison.TRAINERS}
    for tool in sorted(done, key=lambda tool: statistics.median(done[tool] or [0])):
        own = next((own for own, tools in same.items() if tool == own or tool in tools), None)
        caption = _CAPTIONS[-1] if not done[tool] else _CAPTIONS[-2] if own is None else _OF[own]
        found.setdefault(caption, []).append(tool)
    if found.get(_OF[ours.BY_LINES]) == [ours.BY_LINES]:  # nothing to compare it with
        del found[_OF[ours.BY_LINES]]
    return dict(sorted(found.items(), key=lambda item: _CAPTIONS.index(item[0])))


def _draw_panel(axis: Any, group: Sequence[Record], captions: dict[str, list[str]]) -> None:
    tools = [tool for named in captions.values() for tool in named]
    seconds = {tool: statistics.median(records.values(group, tool, "wall_s").values() or [0]) for tool in tools}
    most, height = max(seconds.values()), 0.0
    for caption, named in captions.items():
        height -= 1.2
        axis.text(-0.62 * most, height, caption, style="italic", fontsize=_LETTERS - 2, va="center")
        for tool in named:
            height -= 1
            mine, [time, *memory] = tool in ours.HOW, comparison.cell(group, tool).split(", ")
            hatch, colour = "" if caption in _OF.values() else "//", OURS_COLOUR if mine else PEER_COLOUR
            axis.barh(height, seconds[tool], 0.7, color=colour, hatch=hatch, edgecolor="white", lw=0)
            ratio = comparison.times(group, tool, "wall_s")
            times = "" if mine or not memory or ratio is None else f" · {ratio:.{0 if ratio >= 9.5 else 1}f}×"
            how: dict[str, Any] = {"va": "center", "fontsize": _LETTERS, "weight": "bold" if mine else "normal"}
            axis.text(-0.62 * most, height, _SHORT.get(tool, tool), **how)
            axis.text(seconds[tool] + 0.02 * most, height, f"{time}{times}", **how)
            axis.text(1.9 * most, height, "".join(memory), ha="right", **how)
    axis.set_xlim(-0.62 * most, 1.9 * most)
    axis.set_ylim(height - 0.6, -0.4)
    axis.axis("off")
    text = (
        f"{comparison.name_of(group)}: {group[0]['vocab_size']:,} tokens, {group[0]['machine']['usable_cores']} cores"
    )
    axis.set_title("\n".join(textwrap.wrap(text, 48)), fontsize=_LETTERS, weight="bold", x=0, loc="left")


def draw_growth(all_records: Sequence[Record], path: Path) -> None:
    """Draw log-log curves of our time over bytes, readable on a phone, a panel for each corpus."""
    curves = kinds.curves(all_records)
    drawn = [curve for curve in curves if curve.over == "corpus_bytes" and curve.stage in _STAGES]
    corpora = list(dict.fromkeys(curve.corpus for curve in drawn))
    if not drawn:
        return
    mpl, figure, axes = _figure(len(corpora), 1, 5.2, 3.1 * len(corpora), sharex=True)
    for [axis], corpus in zip(axes, corpora, strict=True):
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
        axis.set_xlim(right=2.3 * max(ticks))
        axis.set_ylabel("seconds")
        axis.set_title(corpus, loc="left")
    axes[-1][0].set_xlabel("MB of the corpus")
    said = [f"{one.corpus}, {one.stage}: slope {one.slope:.2f}" for one in drawn]
    _save(mpl, figure, path, "Growth of time with the size of the corpus", "; ".join(said))
