"""The report as one self-contained page: it needs no network, and adapts to light, dark, wide and narrow.

page.html is its text, page.css its style; page.js draws the figures and searches the vocabulary. plotly's script is
copied, compressed, from the installed package, which is not imported: without it a page has no figures. A content
security policy keeps the page from loading anything, whatever its texts hold; every text is escaped (`html.py`).
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import BinaryIO

from bpe_pipeline import __version__
from bpe_pipeline.base.system import process_lock
from bpe_pipeline.reports.figure import Figure, plotly_figure
from bpe_pipeline.reports.numbers import Numbers
from bpe_pipeline.reports.parts import Html, Part, element, escaped, html_of
from bpe_pipeline.reports.plots import page_figures
from bpe_pipeline.storage import Location

HINT = "report.html is drawn with plotly, which is not installed: pip install 'bpe-pipeline[report]'"
_HERE = Path(__file__).parent
_packing = process_lock()


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


def plain_page(title: str, *sections: Html, figures: Sequence[Figure]) -> str:
    """Return a page of sections in the style of the report. figures: those of its `figure_element`s; without any it has
    no scripts."""
    template = Template((_HERE / "plain_page.html").read_text("utf-8"))
    drawing = _drawing(figures)
    allowed = "script-src 'unsafe-inline';" if drawing else ""
    return template.substitute(
        title=escaped(title),
        style=(_HERE / "page.css").read_text("utf-8"),
        content=re.sub("<section><h3>(.+?)</h3>", r"<section><h2>\1</h2>", escaped(*sections)),
        version=__version__,
        scripts=allowed,
        drawing=drawing,
    )


def figure_element(figure: Figure) -> Html:
    """Return where a page draws a figure; nothing without plotly."""
    if plotly_script() is None:
        return escaped()
    drawing = element("div", id=figure.id, role="img", aria_label=f"{figure.title}. {figure.note}")
    return element("figure", element("h3", figure.title), drawing, element("figcaption", figure.note))


def light_colours() -> dict[str, str]:
    """Return the colours of the style sheet by name: those for light."""
    light, *_ = (_HERE / "page.css").read_text("utf-8").split("@media")
    return dict(re.findall(r"--(\w+): (#\w+)", light))


def _drawing(figures: Sequence[Figure]) -> str:
    """Return the scripts that draw figures; nothing without any, or without plotly."""
    if not figures or (script := plotly_script()) is None:
        return ""
    values = {figure.id: plotly_figure(figure) | {"title": figure.title} for figure in figures}
    described = json.dumps({"light": light_colours(), "figures": values})
    escapes = described.replace("<", "\\u003c")  # only "<" can end a script
    return (
        f'<script type="application/octet-stream" id="plotly">{packed_script(script).decode()}</script>\n'
        f'<script type="application/json" id="figures">{escapes}</script>\n'
        f"<script>{(_HERE / 'page.js').read_text('utf-8')}</script>"
    )


def write_page(
    file: BinaryIO, directory: Location, numbers: Numbers, parts: Mapping[str, Sequence[Part]], added: Sequence[Figure]
) -> None:
    """Write the page of a report.

    directory: of the tokenizer; parts: by their sections; added: figures of extensions.
    """
    own = page_figures(numbers)
    drawn = {one.id: figure_element(one) for one in own}
    content: dict[str, str] = {name: html_of(*shown) for name, shown in parts.items()}
    content |= {
        "directory": escaped(directory),
        "style": (_HERE / "page.css").read_text("utf-8"),
        "added": escaped(*map(figure_element, added)),
        "size_curve": drawn["size-curve"],
        "gain": drawn.get("gain", ""),
        "languages_figure": drawn["languages"],
        "sources_figure": drawn.get("sources", ""),
        "count": f"{numbers.tokenizers[0][1]:,}",
        "version": __version__,
        "listing": base64.b64encode(numbers.listing).decode(),
        "drawing": _drawing([*own, *added]),
    }
    page = Template((_HERE / "page.html").read_text("utf-8")).substitute(content)
    file.write(page.encode(errors="replace"))
