"""The report as one self-contained page: it needs no network, and adapts to light, dark, wide and narrow.

page.html is its text, page.css its style; page.js draws the plots and searches the vocabulary. plotly's script is
copied, compressed, from the installed package, which is not imported. A content security policy keeps the page from
loading anything, whatever its texts hold; every text is escaped, unless it is `Html`, which only this module makes.
"""

import base64
import html
import json
import zlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import BinaryIO

from pipeline import __version__
from pipeline.base.printable import printable
from pipeline.base.system import process_lock
from pipeline.base.units import format_bytes
from pipeline.reports import tables
from pipeline.reports.numbers import Numbers, SentenceTokens
from pipeline.reports.plots import Figure, page_plots
from pipeline.reports.tables import ReportHeader, Table
from pipeline.reports.verdict import verdict

HINT = "report.html is drawn with plotly, which is not installed: pip install 'bpe-pipeline[report]'"
_MEASURES = (
    "A word is a run of letters, marks and digits; tokens per word (fertility) are those that overlap it. "
    "Rényi efficiency (Zouhar et al. 2023, order 2.5) says how evenly tokens are used. Digit F1 compares cuts in "
    "numbers with groups of three from the right. Whole characters: the share of tokens that are valid UTF-8; "
    "single bytes: the share that are one byte of a longer character."
)
_HERE = Path(__file__).parent
_packing = process_lock()


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(*values: object) -> Html:
    """Concatenate values as text in HTML, also for use in attributes; `Html` is kept as it is."""
    return Html("".join(value if isinstance(value, Html) else html.escape(printable(value)) for value in values))


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


def packed_script(script: Path) -> bytes:
    """Return plotly's script as the page holds it: compressed, in base64; a second caller waits for the first."""
    with _packing:
        return _packed(script)


@lru_cache(1)
def _packed(script: Path) -> bytes:
    return base64.b64encode(zlib.compress(script.read_bytes(), 4))


def table(shown: Table, class_: str = "facts") -> Html:
    """Make a table that scrolls if it is wider than the page; without headers only screen readers read its title."""
    if not shown.rows:
        return escaped()
    rows = [
        element("tr", element("th", first, scope="row"), *(
            _cell(cell, shown.marks.get((row, column))) for column, cell in enumerate(cells, 1)
        ))
        for row, (first, *cells) in enumerate(shown.rows)
    ]  # fmt: skip
    head = element("thead", element("tr", *(element("th", header, scope="col") for header in shown.headers)))
    content = element("table", head, *rows) if shown.headers else element("table", *rows, class_=class_)
    framed = element("div", content, class_="wide", tabindex=0, role="region", aria_label=shown.title)
    return escaped(element("h3", shown.title), _note(shown.note), framed) if shown.headers else framed


def plain_page(title: str, *sections: Html) -> str:
    """Return a page of sections without plots or scripts, in the style of the report."""
    template = Template((_HERE / "plain_page.html").read_text("utf-8"))
    style = (_HERE / "page.css").read_text("utf-8")
    return template.substitute(title=escaped(title), style=style, content=escaped(*sections), version=__version__)


def _cell(text: str, mark: str | None) -> Html:
    """Make a cell; a mark is a colour, and a word for who cannot see it."""
    return element("td", text) if mark is None else element("td", text, element("span", f" {mark}"), class_=mark)


def write_page(file: BinaryIO, script: Path, header: ReportHeader, numbers: Numbers) -> None:
    """Write the page. script: plotly's."""
    drawn = page_plots(numbers)
    figures = {name: {"data": plot["data"], "layout": plot["layout"]} for name, plot in drawn.items()}
    listed = tables.vocabulary_lists(numbers)
    content: dict[str, str] = {"gain": "", "ranks": ""}  # none without doublings, or merges
    content |= {name.replace("-", "_"): _figure(name, drawn[name]) for name in drawn}
    content |= {
        "directory": escaped(header.directory),
        "style": (_HERE / "page.css").read_text("utf-8"),
        "verdict": escaped(
            *(
                element("div", element("dt", name), element("dd", text))
                for name, text in verdict(numbers, header.skipped)
            )
        ),
        "compared": _compared(numbers),
        "parts": _parts(numbers),
        "cuts": escaped(*(_sentence(numbers, one) for one in numbers.sentences)),
        "special": table(tables.special_token_table(numbers)),
        "listed": escaped(*map(_token_list, listed)),
        "count": f"{numbers.tokenizers[0][1]:,}",
        "problems": escaped(*map(_token_list, tables.token_lists(numbers))),
        "skipped": _skipped(header),
        "options": table(Table("Options", (), header.options)),
        "corpus": table(Table("Corpus", (), _facts(header, numbers) + header.corpus), "files"),
        "stages": table(tables.stages(header)),
        "versions": table(Table("Versions and machine", (), tuple((header.versions | numbers.machine).items()))),
        "sizes": table(tables.sizes(numbers.merged)),
        "version": __version__,
        "figures": json.dumps(figures).replace("<", "\\u003c"),  # only "<" can end a script
        "listing": base64.b64encode(numbers.listing).decode(),
        "drawing": (_HERE / "page.js").read_text("utf-8"),
    }
    page = Template((_HERE / "page.html").read_text("utf-8")).substitute(content)
    before, after = page.encode(errors="replace").split(b"<!-- plotly -->")
    file.write(before)
    file.write(packed_script(script))
    file.write(after)


def _facts(header: ReportHeader, numbers: Numbers) -> tuple[tuple[str, ...], ...]:
    facts = {
        "text of pieces": format_bytes(numbers.merged.bytes),
        "documents": f"{header.documents:,}" if header.documents else "",
        "peak memory, all processes": format_bytes(header.peak_memory_bytes) if header.peak_memory_bytes else "",
    }
    return tuple((name, value) for name, value in facts.items() if value)


def _compared(numbers: Numbers) -> Html:
    """Make the section of all tokenizers on the same text."""
    sample = numbers.sample
    embedding = escaped(*map(table, tables.embedding_tables(numbers)))
    if sample is None:
        return escaped(
            _note("There was no text to sample: name some with bpe-pipeline report RUN --held-out PATH."), embedding
        )
    about = element("p", tables.about_sample(sample), class_="quiet" if sample.held_out else "warn")
    return escaped(about, table(tables.compared_table(numbers, sample)), _note(_MEASURES), embedding)


def _parts(numbers: Numbers) -> Html:
    """Make the tables by language, source and script."""
    listed = tables.sample_tables(numbers, numbers.sample) if numbers.sample is not None else ()
    return escaped(*map(table, (tables.sentences_table(numbers), tables.fallback_table(numbers), *listed)))


def _skipped(header: ReportHeader) -> Html:
    if header.skipped:
        return element("ul", *(element("li", loss) for loss in header.skipped), class_="warn")
    return _note("Nothing was skipped.")


def _sentence(numbers: Numbers, one: SentenceTokens) -> Html:
    """Show how each tokenizer cuts a sentence, one below the other."""
    shown = []
    for (name, _), cut in zip(numbers.tokenizers, one.cuts, strict=True):
        tokens = sum(len(ids) for ids, _ in cut)
        spans = (
            element("span", text, element("sub", len(ids)) if len(ids) > 1 else "", class_=f"t{number % 4}",
                    title=f"id {' '.join(map(str, ids))}")
            for number, (ids, text) in enumerate(cut)
        )  # fmt: skip
        named = element("p", f"{name}: {tokens} tokens", class_="quiet") if len(one.cuts) > 1 else escaped()
        shown.append(escaped(named, element("p", *spans, class_="cut", dir="auto")))
    return escaped(element("h4", one.language), *shown)


def _token_list(one: Table) -> Html:
    items = (
        element("li", element("code", text), *((element("span", more, class_="quiet"),) if more else ()))
        for text, more in one.rows
    )
    tokens = element("ul", *items, class_="tokens") if one.rows else ""
    return escaped(element("h3", one.title), _note(one.note), tokens)


def _figure(name: str, plot: Figure) -> Html:
    drawing = element("div", id=name, role="img", aria_label=f"{plot['title']}. {plot['caption']}")
    return element("figure", element("h3", plot["title"]), drawing, element("figcaption", plot["caption"]))


def _note(text: str) -> Html:
    return element("p", text, class_="quiet") if text else escaped()
