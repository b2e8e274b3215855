"""The report as one self-contained page, which needs no network, light or dark.

The templates are in `templates/`; every text is escaped. Vega's script is copied, compressed, into the page: without
vl-convert, which has it, a page has no figures. A content security policy keeps a page from loading anything.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bpe_pipeline.reports import drawing
from bpe_pipeline.reports.figure import THEME
from bpe_pipeline.reports.html import templates
from bpe_pipeline.reports.parts import Part
from bpe_pipeline.reports.tables import Chapter
from bpe_pipeline.reports.verdict import COMPRESSION, comparison_table, rate_in_words

if TYPE_CHECKING:
    from bpe_pipeline.reports.summary import Report


def report_page(directory: object, report: "Report", made: Sequence[Part]) -> str:
    """Return the page of a report with numbers. directory: of the tokenizer; made: how it was made."""
    assert report.numbers is not None, "a page is of numbers"
    script = drawing.page_script()
    figures = {figure.id: figure.spec for figure in report.figures} if script else {}
    return _page(
        title=f"Tokenizer report: {directory}",
        verdict={**dict(report.verdict), COMPRESSION: rate_in_words(report.numbers)},
        compared=[comparison_table(report.numbers)],
        chapters=[*report.chapters, Chapter("made", "How it was made", made, folded=True)],
        listing=base64.b64encode(report.numbers.listing).decode(),
        script=script,
        drawing=_in_script({"figures": figures, "theme": THEME["config"], "light": THEME["light"]}),
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
