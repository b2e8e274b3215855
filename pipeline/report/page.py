"""The report as one self-contained page: it needs no network, and adapts to light, dark, wide and narrow.

plotly's script is copied into it from the installed package, which is not imported. A content security policy keeps the
page from loading anything, whatever its texts hold; `markup` escapes these.
"""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from pipeline import __version__
from pipeline.base.units import format_bytes
from pipeline.report import markup, tables
from pipeline.report.markup import Html, element, escaped
from pipeline.report.numbers import Numbers, SentenceTokens
from pipeline.report.plots import Plot, page_plots
from pipeline.report.tables import ReportHeader, Table, TokenList

HINT = "report.html is drawn with plotly, which is not installed: pip install 'bpe-pipeline[report]'"
_SIZES = (
    "Computed from the merge counts, exactly, on the whole training corpus: a smaller vocabulary is the start of a "
    "larger one. The first thousands save most; where doubling saves little, embeddings cost more than they save."
)
_MEASURES = (
    "A word is a run of letters, marks and digits. It is whole if no token ends inside it; tokens per word (fertility) "
    "are those that overlap it. Rényi efficiency (Zouhar et al. 2023, order 2.5) says how evenly tokens are used."
)
_HERE = Path(__file__).parent
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def plotly_script() -> Path | None:
    """Return the path of plotly's script; None if plotly is not installed."""
    spec = find_spec("plotly")
    places = spec.submodule_search_locations if spec is not None else None
    paths = [Path(place) / "package_data" / "plotly.min.js" for place in places or ()]
    return next((path for path in paths if path.is_file()), None)


def write_page(file: BinaryIO, script: Path, header: ReportHeader, numbers: Numbers) -> None:
    """Write the page. script: plotly's."""
    drawn = {plot.name: plot for plot in page_plots(header, numbers)}

    def plots(*names: str) -> Html:
        return element("div", *(_figure(drawn[name]) for name in names if name in drawn), class_="plots")

    main = element(
        "main",
        element("h1", "Tokenizer report: ", header.directory),
        _tiles(header, numbers),
        _section("What was run", *_run(header, numbers)),
        _section(
            "Time and memory",
            plots("times"),
            _table(tables.stages(header)),
            _note(
                f"Peak of all processes together: {format_bytes(header.peak_memory_bytes)}." if header.stages else ""
            ),
        ),
        _section(
            "Which size to choose", _note(_SIZES), plots("size-curve", "gain"), _table(tables.sizes(numbers.merged))
        ),
        _section(
            "What was learned", plots("ranks", "lengths", "scripts"), *map(_token_list, tables.token_lists(numbers))
        ),
        _section("On a sample", *_sample(numbers)),
        _section(
            "The same text, token by token",
            _note("Each colour is a token, ␣ a space. A subscript is the number of tokens of one character."),
            *(_sentence(numbers, one) for one in numbers.sentences),
        ),
        _note(f"bpe-pipeline {__version__}. report.json has every number of this page."),
    )
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{element('title', 'Tokenizer report: ', header.directory)}"
        f"<style>{(_HERE / 'page.css').read_text()}</style></head><body>"
    )
    file.write(f"{head}{main}\n<script>".encode(errors="replace"))
    with script.open("rb") as source:
        shutil.copyfileobj(source, file)
    figures = {plot.name: {"data": plot.data, "layout": plot.layout} for plot in drawn.values()}
    data = json.dumps(figures).replace("<", "\\u003c")  # only "<" can end a script
    drawing = (_HERE / "page.js").read_text()
    end = f'</script>\n<script type="application/json" id="figures">{data}</script>\n<script>{drawing}</script>'
    file.write(f"{end}</body></html>\n".encode())


def _tiles(header: ReportHeader, numbers: Numbers) -> Html:
    size = numbers.tokenizers[0][1]
    rate = next((one.bytes_per_token for one in numbers.merged.marked if one.vocab_size == size), None)
    seconds = sum(s for s in header.stages.values() if s is not None)
    tiles = {
        "vocabulary": f"{size:,}",
        "bytes per token, training corpus": tables.number(rate),
        "text of pieces": format_bytes(numbers.merged.bytes),
        "documents": f"{header.documents:,}" if header.documents else "",
        "time": f"{seconds:.1f} s" if seconds else "",
        "peak memory": format_bytes(header.peak_memory_bytes) if header.peak_memory_bytes else "",
    }
    known = (element("div", element("dt", name), element("dd", value)) for name, value in tiles.items() if value)
    return element("dl", *known, class_="tiles")


def _run(header: ReportHeader, numbers: Numbers) -> list[Html]:
    if header.skipped is None:
        skipped = _note("Not known: the run's own report.json is missing.")
    elif header.skipped:
        skipped = element("ul", *(element("li", loss) for loss in header.skipped), class_="warn")
    else:
        skipped = _note("Nothing was skipped.")
    machine = markup.table((), (header.versions | numbers.machine).items(), "Versions and machine")
    return [
        element(
            "div",
            element("div", element("h3", "Options"), markup.table((), header.options, "Options")),
            element("div", element("h3", "Corpus"), markup.table((), header.corpus, "Corpus", "files")),
            class_="plots",
        ),
        element("h3", "Skipped or altered input"),
        skipped,
        element("details", element("summary", "Versions and machine"), machine),
    ]


def _sample(numbers: Numbers) -> list[Html]:
    sample = numbers.sample
    if sample is None:
        return [_note("There was no text to sample: name some with bpe-pipeline report RUN --held-out PATH.")]
    about = element("p", tables.about_sample(sample), class_="quiet" if sample.held_out else "warn")
    listed = map(_table, tables.sample_tables(numbers, sample))
    return [about, _note(_MEASURES), *listed, _note(f"{tables.unused_tokens(sample)}.")]


def _sentence(numbers: Numbers, one: SentenceTokens) -> Html:
    counts = ", ".join(f"{name}: {count}" for (name, _), count in zip(numbers.tokenizers, one.counts, strict=True))
    spans = [
        element("span", text, element("sub", len(ids)) if len(ids) > 1 else "", class_=f"t{number % 4}",
                title=f"id {' '.join(map(str, ids))}")
        for number, (ids, text) in enumerate(one.tokens)
    ]  # fmt: skip
    per_token = len(one.text.encode()) / one.counts[0]
    note = f" {counts if len(one.counts) > 1 else one.counts[0]} tokens, {per_token:.2f} bytes each"
    title = element("h3", one.language, element("span", note, class_="quiet"))
    return escaped(title, element("p", *spans, class_="cut", dir="auto"))


def _token_list(one: TokenList) -> Html:
    items = (element("li", element("code", text), **({"title": more} if more else {})) for text, more in one.tokens)
    tokens = element("ul", *items, class_="tokens") if one.tokens else ""
    return escaped(element("h3", f"{one.title} ({one.count:,})"), _note(one.explanation), tokens)


def _figure(plot: Plot) -> Html:
    drawing = element("div", id=plot.name, role="img", aria_label=f"{plot.title}. {plot.caption}")
    return element("figure", drawing, element("figcaption", element("b", plot.title), plot.caption))


def _table(table: Table) -> Html:
    if not table.rows:
        return escaped()
    return escaped(element("h3", table.title), _note(table.note), markup.table(table.headers, table.rows, table.title))


def _section(title: str, *children: object) -> Html:
    return element("section", element("h2", title), *children)


def _note(text: str) -> Html:
    return element("p", text, class_="quiet") if text else escaped()
