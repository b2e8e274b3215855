"""The report as one page that stands alone: no network, light and dark, wide and narrow.

plotly's script is copied into it from the installed package, without importing that. A content security policy keeps
the page from loading anything, whatever its texts hold; these are escaped by `markup`.
"""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from pipeline import __version__
from pipeline.base.units import format_bytes
from pipeline.report import plots, rows
from pipeline.report.markup import Html, element, escaped, folded, joined, table
from pipeline.report.numbers import Numbers, SentenceCut
from pipeline.report.plots import Plot
from pipeline.report.rows import Table, Told

HINT = "report.html is drawn with plotly, which is not installed: pip install 'bpe-pipeline[report]'"
_SIZES = (
    "Read off the merge counts, exactly, on the whole training corpus: every smaller vocabulary is the beginning of a "
    "larger one. The first thousands pay most; where doubling saves little, embeddings cost more than they give."
)
_MEASURES = (
    "A word is a run of letters, marks and digits: it is kept whole where no token ends inside of it, and tokens per "
    "word (fertility) are those that it lies in. Rényi efficiency (Zouhar et al. 2023, order 2.5) says how evenly "
    "tokens are used."
)
_HERE = Path(__file__).parent
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def plotly_script() -> Path | None:
    """Where plotly's script lies; None where plotly is not installed."""
    spec = find_spec("plotly")
    places = spec.submodule_search_locations if spec is not None else None
    paths = [Path(place) / "package_data" / "plotly.min.js" for place in places or ()]
    return next((path for path in paths if path.is_file()), None)


def write(file: BinaryIO, script: Path, told: Told, numbers: Numbers) -> None:
    """Write the page. script: plotly's."""
    drawn: list[Plot] = []
    body = joined(_sections(told, numbers, drawn))
    figures = {plot.name: {"data": plot.data, "layout": plot.layout} for plot in drawn}
    title = f"Tokenizer report: {told.directory}"
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{element('title', title)}<style>{(_HERE / 'page.css').read_text()}</style></head><body>"
    )
    file.write(f"{head}{element('main', body)}\n<script>".encode(errors="replace"))
    with script.open("rb") as source:
        shutil.copyfileobj(source, file)
    # Within a script only "<" can end it.
    data = json.dumps(figures, ensure_ascii=True).replace("<", "\\u003c")
    drawing = (_HERE / "page.js").read_text()
    end = f'</script>\n<script type="application/json" id="figures">{data}</script>\n<script>{drawing}</script>'
    file.write(f"{end}</body></html>\n".encode())


def _sections(told: Told, numbers: Numbers, drawn: list[Plot]) -> list[Html]:
    """The page from top to bottom; plots are noted in `drawn`."""

    def figures(*found: Plot | None) -> Html:
        there = [plot for plot in found if plot is not None]
        drawn.extend(there)
        return element("div", *map(_figure, there), class_="plots")

    merged = numbers.merged
    return [
        _head(told, numbers),
        _section("What was run", *_run(told, numbers)),
        _section("Time and memory", figures(plots.times(told)), _table(rows.stages(told)), _peak(told)),
        _section(
            "Which size to take",
            _text(_SIZES),
            figures(plots.size_curve(numbers), plots.gain(numbers)),
            _table(rows.sizes(merged)),
        ),
        _section(
            "What was learned",
            figures(plots.ranks(numbers), plots.lengths(numbers), plots.scripts(numbers)),
            *map(_kind, rows.kinds(numbers)),
        ),
        _section("On a sample", *_sample(numbers)),
        _section(
            "The same text, token by token",
            _text("Each colour is a token, ␣ a space; a number below says how many tokens a character is cut into."),
            *(_sentence(numbers, one) for one in numbers.sentences),
        ),
        element("p", f"bpe-pipeline {__version__}. Every number of this page stands in report.json.", class_="quiet"),
    ]  # fmt: skip


def _head(told: Told, numbers: Numbers) -> Html:
    merged, corpus = numbers.merged, told.summary.get("corpus", {})
    size = numbers.tokenizers[0][1]
    rate = next((one.bytes_per_token for one in merged.marked if one.vocab_size == size), None)
    seconds = [s for s in told.summary.get("stages", {}).values() if s is not None]
    tiles = [
        ("vocabulary", f"{size:,}"),
        ("bytes per token, training corpus", rows.number(rate)),
        ("text of pieces", format_bytes(merged.bytes)),
    ]
    if corpus.get("documents"):
        tiles.append(("documents", f"{corpus['documents']:,}"))
    if seconds:
        tiles.append(("time", f"{sum(seconds):.1f} s"))
    if told.summary.get("peak_memory_bytes"):
        tiles.append(("peak memory", format_bytes(told.summary["peak_memory_bytes"])))
    listed = (element("div", element("dt", name), element("dd", value)) for name, value in tiles)
    return joined((element("h1", "Tokenizer report: ", told.directory), element("dl", *listed, class_="tiles")))


def _run(told: Told, numbers: Numbers) -> list[Html]:
    lost = rows.losses(told)
    skipped = (
        element("ul", *(element("li", loss) for loss in lost), class_="warn") if lost else _text("Nothing was skipped.")
    )
    return [
        element(
            "div",
            element("div", element("h3", "Options"), table((), told.options, "Options")),
            element("div", element("h3", "Corpus"), table((), told.corpus, "Corpus", class_="places")),
            class_="plots",
        ),
        element("h3", "Not taken as it stood"),
        skipped if told.summary else _text("Not known: the run's own report.json is gone."),
        folded("Versions and machine", table((), (told.versions | numbers.machine).items(), "Versions and machine")),
    ]


def _peak(told: Told) -> Html:
    peak = told.summary.get("peak_memory_bytes")
    return _text(f"Peak of all processes together: {format_bytes(peak)}." if peak else "")


def _sample(numbers: Numbers) -> list[Html]:
    sample = numbers.sample
    if sample is None:
        return [
            _text("There was no text to draw a sample from: give some with bpe-pipeline report RUN --held-out PATH.")
        ]
    about = element("p", rows.about_sample(sample), class_="quiet" if sample.held_out else "warn")
    measures = _text(_MEASURES)
    tables = map(_table, rows.sample_tables(numbers, sample))
    return [about, measures, *tables, _text(f"{sample.unused:,} tokens of the vocabulary do not occur in the sample.")]


def _sentence(numbers: Numbers, one: SentenceCut) -> Html:
    counts = ", ".join(f"{name}: {count}" for (name, _), count in zip(numbers.tokenizers, one.counts, strict=True))
    spans = []
    for number, (ids, text) in enumerate(one.tokens):
        several = element("sub", len(ids)) if len(ids) > 1 else ""
        ids_told = "id " + " ".join(map(str, ids))
        spans.append(element("span", text, several, class_=f"t{number % 4}", title=ids_told))
    per_token = len(one.text.encode()) / one.counts[0]
    told = element("span", f" {counts if len(one.counts) > 1 else one.counts[0]} tokens, {per_token:.2f} bytes each",
                   class_="quiet")  # fmt: skip
    return joined((element("h3", one.language, told), element("p", *spans, class_="cut", dir="auto")))


def _kind(kind: rows.Kind) -> Html:
    listed = (element("li", element("code", text), **({"title": more} if more else {})) for text, more in kind.tokens)
    tokens = element("ul", *listed, class_="tokens") if kind.tokens else ""
    return joined((element("h3", f"{kind.title} ({kind.count:,})"), _text(kind.explained), tokens))


def _figure(plot: Plot) -> Html:
    caption = element("figcaption", element("b", plot.title), plot.told)
    return element("figure", element("div", id=plot.name, role="img", aria_label=f"{plot.title}. {plot.told}"), caption)


def _table(found: Table) -> Html:
    if not found.rows:
        return escaped("")
    note = _text(found.note) if found.note else ""
    return joined((element("h3", found.title), note, table(found.headers, found.rows, found.title)))


def _section(title: str, *children: object) -> Html:
    return element("section", element("h2", title), *children)


def _text(text: str) -> Html:
    return element("p", text, class_="quiet") if text else escaped("")
