"""The report as one self-contained page: it needs no network, and adapts to light, dark, wide and narrow.

page.html is its text, page.css its style; page.js draws the plots. plotly's script is copied from the installed
package, which is not imported. A content security policy keeps the page from loading anything, whatever its texts hold;
every text is escaped, unless it is `Html`, which only this module makes.
"""

import html
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import BinaryIO

from pipeline import __version__
from pipeline.base.units import format_bytes
from pipeline.report import tables
from pipeline.report.numbers_worker import Numbers, SentenceTokens
from pipeline.report.plots import Figure, page_plots
from pipeline.report.tables import ReportHeader, Table

HINT = "report.html is drawn with plotly, which is not installed: pip install 'bpe-pipeline[report]'"
_MEASURES = (
    "A word is a run of letters, marks and digits. It is whole if no token ends inside it; tokens per word (fertility) "
    "are those that overlap it. Rényi efficiency (Zouhar et al. 2023, order 2.5) says how evenly tokens are used."
)
_HERE = Path(__file__).parent


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(*values: object) -> Html:
    """Concatenate values as text in HTML, also for use in attributes; `Html` is kept as it is."""
    return Html("".join(value if isinstance(value, Html) else html.escape(str(value)) for value in values))


def element(tag: str, *children: object, **attributes: object) -> Html:
    """Make an element; `class_` is the attribute `class`, `aria_label` is `aria-label`.

    >>> element("b", "a < b", class_="x")
    '<b class="x">a &lt; b</b>'
    """
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{written}>{escaped(*children)}</{tag}>")


def plotly_script() -> Path | None:
    """Return the path of plotly's script; None if plotly is not installed."""
    spec = find_spec("plotly")
    directories = (spec.submodule_search_locations if spec is not None else None) or ()
    paths = [Path(directory) / "package_data" / "plotly.min.js" for directory in directories]
    return next((path for path in paths if path.is_file()), None)


def table(shown: Table, class_: str = "facts") -> Html:
    """Make a table that scrolls if it is wider than the page; without headers only screen readers read its title."""
    if not shown.rows:
        return escaped()
    rows = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in cells))
        for first, *cells in shown.rows
    ]
    head = element("thead", element("tr", *(element("th", header, scope="col") for header in shown.headers)))
    content = element("table", head, *rows) if shown.headers else element("table", *rows, class_=class_)
    framed = element("div", content, class_="wide", tabindex=0, role="region", aria_label=shown.title)
    return escaped(element("h3", shown.title), _note(shown.note), framed) if shown.headers else framed


def plain_page(title: str, *sections: Html) -> str:
    """Return a page of sections without plots or scripts, in the style of the report."""
    template = Template((_HERE / "plain_page.html").read_text("utf-8"))
    style = (_HERE / "page.css").read_text("utf-8")
    return template.substitute(title=escaped(title), style=style, content=escaped(*sections), version=__version__)


def write_page(file: BinaryIO, script: Path, header: ReportHeader, numbers: Numbers) -> None:
    """Write the page. script: plotly's."""
    drawn = page_plots(header, numbers)
    figures = {name: {"data": plot["data"], "layout": plot["layout"]} for name, plot in drawn.items()}
    content: dict[str, str] = {"times": ""} | {name.replace("-", "_"): _figure(name, drawn[name]) for name in drawn}
    content |= {
        "directory": escaped(header.directory),
        "style": (_HERE / "page.css").read_text("utf-8"),
        "tiles": _tiles(header, numbers),
        "options": table(Table("Options", (), header.options)),
        "corpus": table(Table("Corpus", (), header.corpus), "files"),
        "skipped": _skipped(header),
        "versions": table(Table("Versions and machine", (), tuple((header.versions | numbers.machine).items()))),
        "stages": table(tables.stages(header)),
        "sizes": table(tables.sizes(numbers.merged)),
        "tokens": escaped(*map(_token_list, tables.token_lists(numbers))),
        "sample": _sample(numbers),
        "sentences": escaped(*(_sentence(numbers, one) for one in numbers.sentences)),
        "version": __version__,
        "figures": json.dumps(figures).replace("<", "\\u003c"),  # only "<" can end a script
        "drawing": (_HERE / "page.js").read_text("utf-8"),
    }
    page = Template((_HERE / "page.html").read_text("utf-8")).substitute(content)
    before, after = page.encode(errors="replace").split(b"<!-- plotly -->\n")
    file.write(before)
    with script.open("rb") as source:
        shutil.copyfileobj(source, file)
    file.write(after)


def _tiles(header: ReportHeader, numbers: Numbers) -> Html:
    size = numbers.tokenizers[0][1]
    rate = next((one.bytes_per_token for one in numbers.merged.marked if one.vocab_size == size), None)
    seconds = sum(s for s in header.stages.values() if s is not None)
    tiles = {
        "vocabulary": f"{size:,}",
        "bytes per token, training corpus": tables.shown(rate),
        "text of pieces": format_bytes(numbers.merged.bytes),
        "documents": f"{header.documents:,}" if header.documents else "",
        "time": f"{seconds:.1f} s" if seconds else "",
        "peak memory, all processes": format_bytes(header.peak_memory_bytes) if header.peak_memory_bytes else "",
    }
    return escaped(
        *(element("div", element("dt", name), element("dd", value)) for name, value in tiles.items() if value)
    )


def _skipped(header: ReportHeader) -> Html:
    if header.skipped:
        return element("ul", *(element("li", loss) for loss in header.skipped), class_="warn")
    unknown = header.skipped is None
    return _note("Not known: the run's own report.json is missing." if unknown else "Nothing was skipped.")


def _sample(numbers: Numbers) -> Html:
    sample = numbers.sample
    if sample is None:
        return _note("There was no text to sample: name some with bpe-pipeline report RUN --held-out PATH.")
    about = element("p", tables.about_sample(sample), class_="quiet" if sample.held_out else "warn")
    listed = map(table, tables.sample_tables(numbers, sample))
    return escaped(about, _note(_MEASURES), *listed, _note(f"{tables.unused_tokens(sample)}."))


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


def _token_list(one: Table) -> Html:
    items = (element("li", element("code", text), **({"title": more} if more else {})) for text, more in one.rows)
    tokens = element("ul", *items, class_="tokens") if one.rows else ""
    return escaped(element("h3", one.title), _note(one.note), tokens)


def _figure(name: str, plot: Figure) -> Html:
    drawing = element("div", id=name, role="img", aria_label=f"{plot['title']}. {plot['caption']}")
    return element("figure", drawing, element("figcaption", element("b", plot["title"]), plot["caption"]))


def _note(text: str) -> Html:
    return element("p", text, class_="quiet") if text else escaped()
