"""What is put into the pages when the site is built, so that it stands in one place only.

<!-- options of train -->       a table of a command's options, from the command line itself
<!-- figure cuts -->            a drawing of figures.py
<!-- include PATH -->           a Markdown file of the project without its title
<!-- include PATH benchmarks --> what stands there between the markers of `python -m benchmarks`
"""

import html
import re
import sys
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent.parent
sys.path.insert(0, str(HOME / "docs"))

import figures  # noqa: E402 - lies beside this file

_MARK = re.compile(r"^<!-- (options of|figure|include) ([^>]+?) -->$", re.MULTILINE)
_MEASURED = re.compile(r"<!-- benchmarks: begin -->\n(.*)<!-- benchmarks: end -->", re.DOTALL)
_TITLE = re.compile(r"\A# .*\n")
_PICTURE = re.compile(r"^!\[.*\n", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in what the marks of a page ask for."""
    return _MARK.sub(lambda mark: _instead(mark[1], mark[2]), markdown)


def _instead(kind: str, name: str) -> str:
    if kind == "options of":
        return options_of(name)
    if kind == "figure":
        return figures.FIGURES[name]()
    path, _, part = name.partition(" ")
    text = (HOME / path).read_text(encoding="utf-8")
    if part:
        measured = _MEASURED.search(text)
        if measured is None:
            raise ValueError(f"{path} has no part for measurements")
        return _PICTURE.sub("", measured[1])
    return _TITLE.sub("", text)


def options_of(name: str) -> str:
    """A table of all options that a command takes."""
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
