"""Draw the charts as SVG: trainers compared on one corpus, on all corpora, and growth of time.

A chart is a specification of Vega-Lite, drawn by vl-convert as those of a report are. The same records and the same
vl-convert produce the same bytes: committed charts change only with the figures. Charts have no background; text and
axes follow the theme of the site, or else the reader's preference for light or dark.
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
_LETTERS, _WIDTH, _ROW = 13, 460, 22  # pixels: of letters, of a chart, of a bar with its space
_STAGES = ("all", "counting", "merging")
_SHORT = {ours.BY_LINES: "by lines", "tokenizers": "HF BpeTrainer", "sentencepiece": "SentencePiece"}


Spec = dict[str, Any]


def _save(panels: list[Spec], path: Path, title: str, description: str) -> None:
    """Write panels below each other; the title and the description are for screen readers."""
    try:
        from vl_convert import vegalite_to_svg
    except ImportError as error:
        raise ValueError("charts need vl-convert: pip install '.[bench]'") from error

    lines = dict.fromkeys(("domainColor", "tickColor"), INK)
    of_text = {"labelFontSize": _LETTERS, "titleFontSize": _LETTERS, "labelColor": INK, "titleColor": INK}
    config = {
        "background": None,
        "font": "sans-serif",
        "axis": {**of_text, **lines, "grid": False, "titleFontWeight": "normal"},
        "text": {"color": INK, "fontSize": _LETTERS, "align": "left", "baseline": "middle"},
        "title": {"color": INK, "fontSize": _LETTERS, "anchor": "start", "frame": "group"},
        "view": {"stroke": None},
    }
    drawn = vegalite_to_svg({"vconcat": panels, "config": config}).replace(INK, "currentColor")
    head, _, rest = drawn[drawn.index("<svg ") :].partition(">")
    said = f"<title>{title}</title><desc>{description}</desc>"
    chart = head.replace('class="marks"', 'class="chart" role="img"', 1) + f">{said}{_STYLE}{rest}"
    path.parent.mkdir(parents=True, exist_ok=True)
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
    tools = sorted({tool for _, captions in panels for tools in captions.values() for tool in tools})
    said = [
        f"{comparison.name_of(group)}: {tool} {comparison.cell(group, tool)}"
        for group, captions in panels
        for tools in captions.values()
        for tool in tools
    ]
    drawn = [_panel(group, captions) for group, captions in panels]
    _save(drawn, path, f"Training time and peak memory of {len(tools)} trainers", "; ".join(said))


def _captions(group: Sequence[Record]) -> dict[str, list[str]]:
    """Return the trainers of a task by what they learned, the fastest first."""
    same, found = comparison.same_merges(group), dict[str, list[str]]()
    done = {tool: records.values(group, tool, "wall_s").values() for tool in comparison.FEATURES}
    for tool in sorted(done, key=lambda tool: statistics.median(done[tool] or [0])):
        own = next((own for own, tools in same.items() if tool == own or tool in tools), None)
        caption = _CAPTIONS[-1] if not done[tool] else _CAPTIONS[-2] if own is None else _OF[own]
        found.setdefault(caption, []).append(tool)
    if found.get(_OF[ours.BY_LINES]) == [ours.BY_LINES]:  # nothing to compare it with
        del found[_OF[ours.BY_LINES]]
    return dict(sorted(found.items(), key=lambda item: _CAPTIONS.index(item[0])))


def _panel(group: Sequence[Record], captions: dict[str, list[str]]) -> Spec:
    """Return a row for each caption, and one for each trainer: its name, a bar, its time, its memory."""
    seconds = {
        tool: statistics.median(records.values(group, tool, "wall_s").values() or [0])
        for tools in captions.values()
        for tool in tools
    }
    heads = {"row": 0, "seconds": 0, "zero": 0, "mine": True, "time": "time", "memory": "peak memory"}
    most, rows = max(seconds.values()), [heads]
    for caption, named in captions.items():
        rows.append({"row": len(rows), "caption": caption})
        for tool in named:
            mine, [time, *memory] = tool in ours.HOW, comparison.cell(group, tool).split(", ")
            ratio = comparison.times(group, tool, "wall_s")
            times = "" if mine or not memory or ratio is None else f" · {ratio:.{0 if ratio >= 9.5 else 1}f}×"
            bar = {"row": len(rows), "tool": _SHORT.get(tool, tool), "seconds": seconds[tool], "zero": 0, "mine": mine}
            rows.append({**bar, "time": f"{time}{times}", "memory": "".join(memory), "same": caption in _OF.values()})
    x: Spec = {"type": "quantitative", "axis": None, "scale": {"domain": [-0.62 * most, 1.9 * most], "nice": False}}
    colour = {"condition": {"test": "datum.mine", "value": OURS_COLOUR}, "value": PEER_COLOUR}
    fill = {"condition": {"test": "datum.same", "value": 1}, "value": 0.25}  # other merges are another task

    def text(field: str, at: Spec, **mark: Any) -> Spec:
        mark |= {"type": "text", "fontWeight": {"expr": "datum.mine ? 'bold' : 'normal'"}}
        encoding = {"x": {**x, **at}, "text": {"field": field}}
        return {"transform": [{"filter": f"isValid(datum.{field})"}], "mark": mark, "encoding": encoding}

    bars = {
        "transform": [{"filter": "isValid(datum.seconds)"}],
        "mark": {"type": "bar", "height": 17},
        "encoding": {"x": {**x, "field": "zero"}, "x2": {"field": "seconds"}, "color": colour, "fillOpacity": fill},
    }
    left = {"datum": -0.62 * most}
    title = (
        f"{comparison.name_of(group)}: {group[0]['vocab_size']:,} tokens, {group[0]['machine']['usable_cores']} cores"
    )
    return {
        "title": textwrap.wrap(title, 56),
        "width": _WIDTH,
        "height": _ROW * len(rows),
        "data": {"values": rows},
        "encoding": {"y": {"field": "row", "type": "ordinal", "axis": None}},
        "layer": [
            bars,
            text("caption", left, fontStyle="italic", fontSize=_LETTERS - 2),
            text("tool", left),
            text("time", {"field": "seconds"}, dx=4),
            text("memory", {"datum": 1.9 * most}, align="right"),
        ],
    }


def draw_growth(all_records: Sequence[Record], path: Path) -> None:
    """Draw log-log curves of our time over bytes, readable on a phone, a panel for each corpus."""
    curves = kinds.curves(all_records)
    drawn = [curve for curve in curves if curve.over == "corpus_bytes" and curve.stage in _STAGES]
    corpora = list(dict.fromkeys(curve.corpus for curve in drawn))
    if not drawn:
        return
    panels = [_growth([curve for curve in drawn if curve.corpus == corpus], corpus) for corpus in corpora]
    panels[-1]["encoding"]["x"]["axis"]["title"] = "MB of the corpus"
    said = [f"{one.corpus}, {one.stage}: slope {one.slope:.2f}" for one in drawn]
    _save(panels, path, "Growth of time with the size of the corpus", "; ".join(said))


def _growth(curves: Sequence[kinds.Curve], corpus: str) -> Spec:
    """Return curves of seconds over megabytes, each with its name at its end."""
    points = [{"stage": one.stage, "MB": x / 1e6, "seconds": y} for one in curves for x, y in one.points]
    named = zip(sorted(curves, key=lambda one: one.points[-1][1]), ("top", "bottom", "middle"), strict=False)
    ends = [
        {"stage": one.stage, "MB": one.points[-1][0] / 1e6, "seconds": one.points[-1][1], "side": side}
        for one, side in named
    ]
    ticks = sorted({point["MB"] for point in points})
    scale = {"type": "log", "nice": False}
    x: Spec = {"field": "MB", "type": "quantitative", "scale": {**scale, "domain": [ticks[0], 2.3 * ticks[-1]]}}
    y = {"field": "seconds", "type": "quantitative", "scale": scale, "axis": {"format": "~g"}, "title": "seconds"}
    colours = {"domain": list(_STAGES), "range": [OURS_COLOUR, INK, INK]}
    dashes = {"domain": list(_STAGES), "range": [[1, 0], [5, 3], [5, 3]]}
    of_stage = {"field": "stage", "type": "nominal", "legend": None}
    return {
        "title": corpus,
        "width": _WIDTH - 60,
        "height": 200,
        "encoding": {
            "x": {**x, "axis": {"values": ticks, "format": ".0f"}, "title": None},
            "y": y,
            "color": {**of_stage, "scale": colours},
        },
        "layer": [
            {
                "data": {"values": points},
                "mark": {"type": "line", "point": True},
                "encoding": {"strokeDash": {**of_stage, "scale": dashes}},
            },
            {
                "data": {"values": ends},
                "mark": {"type": "text", "dx": 7, "baseline": {"expr": "datum.side"}},
                "encoding": {"text": {"field": "stage"}},
            },
        ],
    }
