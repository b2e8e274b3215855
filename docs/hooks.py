"""Insert generated content into the pages when the site is built, so that each text has one source.

<!-- options of train -->       a table of a command's options, from the command line itself
<!-- figure cuts -->            a drawing of figures.py
<!-- chart trainers -->         a chart of benchmarks/plots
<!-- include PATH -->           a Markdown file of the project without its title
"""

import html
import re
import sys
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent.parent
sys.path.insert(0, str(HOME / "docs"))

import figures  # noqa: E402 - is stored next to this file

_MARK = re.compile(r"^<!-- (options of|figure|chart|include) ([^>]+?) -->$", re.MULTILINE)
_TITLE = re.compile(r"\A# .*\n")
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page by their content."""
    return _MARK.sub(lambda mark: _content(mark[1], mark[2]), markdown)


def _content(kind: str, name: str) -> str:
    if kind == "options of":
        return options_of(name)
    if kind == "figure":
        return figures.FIGURES[name]()
    if kind == "chart":
        return chart(name)
    return _TITLE.sub("", (HOME / name).read_text(encoding="utf-8"))


def chart(name: str) -> str:
    """Return a chart as one line of HTML: inside the page it follows the theme that the reader chose."""
    drawn = (HOME / "benchmarks" / "plots" / f"{name}.svg").read_text(encoding="utf-8")
    return f"<figure>{' '.join(_METADATA.sub('', drawn).split())}</figure>"


def options_of(name: str) -> str:
    """Return a table of all options of a command."""
    import click

    from pipeline.cli import commands

    rows = ["| option | |", "|---|---|"]
    for parameter in commands.commands[name].params:
        if isinstance(parameter, click.Option):
            metavar = "" if parameter.is_flag else f" {parameter.metavar or 'VALUE'}"
            rows.append(f"| <code>{_cell(parameter.opts[0] + metavar)}</code> | {_cell(parameter.help or '')} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return " ".join(html.escape(text, quote=False).split()).replace("|", "&#124;").replace("*", "&#42;")
