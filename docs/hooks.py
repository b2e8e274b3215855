"""Insert generated content into the pages when the site is built, so that each text has one source.

<!-- figure cuts -->            a drawing of figures.py
<!-- chart trainers -->         a chart of benchmarks/plots

Next to each page stands its Markdown, for agents, and llms.txt lists all of them (llmstxt.org).

`python docs/hooks.py` writes into the reference, after each <!-- options of train -->, the table of the command's
options, after each <!-- reference of train --> the signature and docstring of the function, and after
<!-- list of patterns --> those that have names, with their expressions, and after <!-- list of numbers --> the numbers
of a report with their definitions, from the objects themselves: it can be read as Markdown, too.
"""

import html
import re
import sys
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent.parent
sys.path.insert(0, str(HOME / "docs"))

import figures  # noqa: E402 - is stored next to this file

_MARK = re.compile(r"^<!-- (figure|chart) ([^>]+?) -->$", re.MULTILINE)
_MADE = re.compile(
    r"^(<!-- (options|reference|list) of (\S+) -->\n).*?^(?=<!-- end of \2 -->$)", re.MULTILINE | re.DOTALL
)
_MADE_MARKS = re.compile(
    r"^<!-- (?:(?:options|reference|list) of \S+|end of (?:options|reference|list)) -->$", re.MULTILINE
)
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_PICTURE = re.compile(r"^!\[([^]]*)\]\((\S+)-light(\S*)\.png\)$", re.MULTILINE)  # has a dark one next to it
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_pages: dict[str, str] = {}  # Markdown by path, of a build


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the marks of a page by their content; what those of the reference enclose is in the page already."""
    without = _MADE_MARKS.sub("", markdown)
    _pages[page.file.src_uri] = _COMMENT.sub("", without)
    schemes = r"![\1](\2-light\3.png#only-light)\n![\1](\2-dark\3.png#only-dark)"
    return _MARK.sub(lambda mark: _content(mark[1], mark[2]), _PICTURE.sub(schemes, without))


def on_post_build(config: Any, **_: Any) -> None:
    """Write the Markdown of each page, and llms.txt, which lists them with their titles and first sentences."""
    home, lines = Path(config["site_dir"]), [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    for path, markdown in sorted(_pages.items()):
        (home / path).write_text(markdown, encoding="utf-8")
        title, *paragraphs = re.split(r"\n\s*\n", markdown[markdown.index("# ") :])
        first = next((text for text in paragraphs if re.match(r"[\w*[]|`[^`]", text)), "")
        sentence = re.split(r"(?<=[.:])\s", _plain(first))[0].rstrip(".:")
        lines.append(f"- [{title.removeprefix('# ')}]({path}): {sentence}")
    (home / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _plain(markdown: str) -> str:
    return " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown).replace("**", "").split())


def _content(kind: str, name: str) -> str:
    return figures.FIGURES[name]() if kind == "figure" else chart(name)


def chart(name: str) -> str:
    """Return a chart as one line of HTML: inside the page it follows the theme that the reader chose."""
    drawn = (HOME / "benchmarks" / "plots" / f"{name}.svg").read_text(encoding="utf-8")
    return f"<figure>{' '.join(_METADATA.sub('', drawn).split())}</figure>"


def with_reference(markdown: str) -> str:
    """Return a page with its tables of options and its signatures and docstrings as they should be."""
    from docstrings import markdown_of

    made = {"options": options_of, "reference": markdown_of, "list": list_of}
    return _MADE.sub(lambda mark: f"{mark[1]}\n{made[mark[2]](mark[3])}\n\n", markdown)


def options_of(name: str) -> str:
    """Return a table of the options of a command by their groups; those that `train` has, too, are only named."""
    rows, groups = ["| option | |", "|---|---|"], _options_of(name)
    known = {row for listed in _options_of("train").values() for row in listed} if name != "train" else set()
    for title, listed in groups.items():
        if own := [row for row in listed if row not in known]:
            rows += [f"| **{title}** | |", *(f"| <code>{flags}{value}</code> | {text} |" for flags, value, text in own)]
    if same := [f"`{row[0].split(', ')[0]}`" for listed in groups.values() for row in listed if row in known]:
        rows.append(f"| **As of [`train`](#train)** | {', '.join(same)} |")
    return "\n".join(rows)


def _options_of(name: str) -> dict[str, list[tuple[str, str, str]]]:
    """Return the options of a command by their groups: flags, what they take, and help."""
    import click

    from pipeline.cli import all_commands

    command, found = all_commands()[name], dict[str, list[tuple[str, str, str]]]()
    for title, flags in command.groups(click.Context(command)).items():
        shown = [flag for flag in flags if not flag.is_eager]  # --help, which click spells as its first caller does
        found[title] = [
            (
                _cell(", ".join(flag.opts)),
                "" if flag.is_flag else f" {_cell(flag.metavar or 'VALUE')}",
                _cell(flag.help or ""),
            )
            for flag in shown
        ]
    return found


def list_of(name: str) -> str:
    """Return what each preset does, the runtimes that have it, and its expression; or what each number means."""
    return {"patterns": _patterns, "numbers": _numbers}[name]()


def _patterns() -> str:
    from pipeline.pattern.presets import PRESETS

    return "\n\n".join(
        f"`{preset.name}` {preset.help}. Runs in {_runtimes(preset)}.\n\n```text\n{preset.expression}\n```"
        for preset in PRESETS.values()
    )


def _numbers() -> str:
    from pipeline.reports.definitions import NUMBERS

    better = {1: "more", -1: "less", 0: ""}
    rows = ["| name | in tables | what it is | better | source |", "|---|---|---|---|---|"]
    for name, one in NUMBERS.items():
        rows.append(f"| `{name}` | {one.title} | {one.meaning} | {better[one.better]} | {one.source} |")
    return "\n".join(rows)


def _runtimes(preset: Any) -> str:
    first = "tokenizers 0.x and 1.0" if preset.run_by_tokenizers_1 else "tokenizers 0.x (1.0 has no engine for it)"
    return f"{first}, tiktoken" + (f", llama.cpp (`{preset.llama_cpp}`)" if preset.llama_cpp else "")


def _cell(text: str) -> str:
    return " ".join(html.escape(text, quote=False).split()).replace("|", "&#124;").replace("*", "&#42;")


if __name__ == "__main__":
    for name in ("command", "python", "patterns", "numbers"):
        page = HOME / "docs" / "pages" / "reference" / f"{name}.md"
        page.write_text(with_reference(page.read_text(encoding="utf-8")), encoding="utf-8")
