"""Jinja's templates in `templates/`, and what results show as HTML. Every text is escaped."""

from functools import cache
from pathlib import Path
from typing import Any

from bpe_pipeline import __version__
from bpe_pipeline.base.printable import printable
from bpe_pipeline.reports.figure import THEME
from bpe_pipeline.reports.parts import Part


@cache
def templates() -> Any:
    """Return Jinja's environment: what is put into a template is escaped, and shown without controls."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    loader = FileSystemLoader(Path(__file__).parent / "templates")
    made = Environment(
        loader=loader,
        autoescape=True,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable(value),
    )
    made.globals |= {"light": THEME["light"], "dark": THEME["dark"], "version": __version__}
    made.filters["cell"] = lambda text: Markup(printable(text).replace("|", "\\|").replace("<", "&lt;"))  # noqa: S704
    return made


def html_of(*parts: Part) -> str:
    """Return what a result shows, as a notebook shows it."""
    return str(templates().get_template("parts.html").module.show(parts))
