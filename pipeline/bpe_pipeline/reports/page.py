"""The report as one self-contained page, which needs no network, light or dark.

The templates are in `templates/`; every text is escaped. Vega's script is copied, compressed, into the page: without
vl-convert, which has it, a page has no figures. A content security policy keeps a page from loading anything.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.reports import drawing
from bpe_pipeline.reports.figure import LIGHT, Figure, theme
from bpe_pipeline.reports.html import templates
from bpe_pipeline.reports.numbers import Numbers
from bpe_pipeline.reports.parts import Part, Table
from bpe_pipeline.reports.plots import page_figures
from bpe_pipeline.reports.verdict import COMPRESSION, comparison_table, rate_in_words


@dataclass(frozen=True)
class Chapter:
    """A section of a page. search: how many tokens it offers to search; folded: it is unfolded to be read."""

    id: str
    title: str
    parts: Sequence[Part]
    figures: Sequence[Figure] = ()
    search: str = ""
    folded: bool = False


def report_page(
    directory: object, numbers: Numbers, verdict: Sequence[tuple[str, str]], parts: Mapping[str, Sequence[Part]]
) -> str:
    """Return the page of a report. directory: of the tokenizer; verdict: its rows; parts: by their sections."""
    tables = [part for part in parts["lead"] if isinstance(part, Table)]
    script = drawing.page_script()
    drawn = {one.id: one for one in page_figures(numbers, tables)} if script else {}

    def figures(*names: str) -> list[Figure]:
        return [drawn[name] for name in names if name in drawn]

    chapters = [
        Chapter("sizes", "Vocabulary sizes", parts["sizes"], figures("size-curve", "gain")),
        *([Chapter("inputs", "Inputs", parts["lead"], figures("heat-map"))] if parts["lead"] else []),
        Chapter("by-language", "By language", parts["languages"], figures("languages")),
        Chapter("sample", "Sample", [*parts["sample"], *parts["sources"]]),
        Chapter("tokens", "Tokens", parts["tokens"], search=f"{numbers.tokenizers[0][1]:,}"),
        Chapter("made", "How it was made", [*parts["skipped"], *parts["made"]], folded=True),
    ]
    described = {"figures": {name: one.spec for name, one in drawn.items()}, "theme": theme(), "light": LIGHT}
    return _page(
        title=f"Tokenizer report: {directory}",
        verdict={**dict(verdict), COMPRESSION: rate_in_words(numbers)},
        compared=[comparison_table(numbers)],
        chapters=chapters,
        listing=base64.b64encode(numbers.listing).decode(),
        script=script,
        drawing=_in_script(described),
    )


def plain_page(title: str, parts: Iterable[Part]) -> str:
    """Return a page of some parts, without figures and scripts."""
    return _page(title=title, chapters=[Chapter("numbers", "Numbers", [*parts])])


def _page(**shown: Any) -> str:
    page: str = templates().get_template("page.html").render(shown)
    return page


def _in_script(value: object) -> Any:
    """Return JSON that is safe in a script: only "<" can end one."""
    from markupsafe import Markup

    return Markup(json.dumps(value).replace("<", "\\u003c"))  # noqa: S704 - "<" is escaped
