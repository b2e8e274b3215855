"""Insert generated content into the pages when the site is built, so that each text has one source.

<!-- figure cuts -->            a drawing of figures.py
<!-- chart trainers -->         a chart of benchmarks/plots

Next to each page stands its Markdown, for agents, and llms.txt lists all of them (llmstxt.org).

`python docs/hooks.py` writes into the pages of the reference, up to the mark <!-- end of ... --> or the page's end:

<!-- options of train -->       what the command does, its usage and the table of its options
<!-- reference of train -->     the signature and docstring of each function that is named
<!-- list of options -->        the options that most commands have; also the named patterns, the numbers of a report

All of it is made of the objects themselves, and can be read as Markdown, too.
"""

import html
import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent.parent
sys.path.insert(0, str(HOME / "docs"))

import figures  # noqa: E402 - is stored next to this file

_MARK = re.compile(r"^<!-- (figure|chart) ([^>]+?) -->$", re.MULTILINE)
_MADE = re.compile(
    r"^(<!-- (options|reference|list) of ([^>]+) -->\n).*?(?:^(?=<!-- end of \2 -->$)|\Z)", re.MULTILINE | re.DOTALL
)
_MADE_MARKS = re.compile(
    r"^<!-- (?:(?:options|reference|list) of [^>]+|end of (?:options|reference|list)) -->$", re.MULTILINE
)
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_PICTURE = re.compile(r"^!\[([^]]*)\]\((\S+)-light(\S*)\.png\)$", re.MULTILINE)  # has a dark one next to it
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_WORK = ("Resources", "Other")  # groups of options that say how a command works, not what it makes
_SEVERAL = 3  # commands that have the same option
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

    made = {"options": command_of, "reference": markdown_of, "list": list_of}
    return _MADE.sub(lambda mark: f"{mark[1]}\n{made[mark[2]](mark[3])}\n\n", markdown).rstrip("\n") + "\n"


def command_of(name: str) -> str:
    """Return what a command does, its usage, and the table of its options by their groups.

    Options of how it works that several commands have are only named, and so are those that `train` has, too.
    """
    import click

    from pipeline.cli import all_commands

    command, groups, (common, every) = all_commands()[name], _options_of(name), _common()
    usage = " ".join(filter(None, ["bpe-pipeline", name, *command.collect_usage_pieces(click.Context(command))]))
    known = {row for listed in _options_of("train").values() for row in listed} if name != "train" else set()
    rows = []
    for title, listed in groups.items():
        if own := [row for row in listed if row not in known | common]:
            rows += [f"| **{title}** | |", *_rows(own)]
    options = [row for listed in groups.values() for row in listed]
    if same := [_long(row) for row in options if row in known - common]:
        rows.append(f"| **As of [`train`](train.md)** | {', '.join(same)} |")
    if same := [_long(row) for row in options if row in common - every]:
        rows.append(f"| **[Common](../command.md#common-options)** | {', '.join(same)} |")
    head = [(command.help or "").partition("\n")[0], "", f"`{usage}`"]
    return "\n".join([*head, *(["", "| option | |", "|---|---|", *rows] if rows else [])])


@cache
def _common() -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str]]]:
    """Return the options of how a command works that several commands have, and those that all have."""
    from pipeline.cli import all_commands

    found = Counter(row for name in all_commands() for title in _WORK for row in _options_of(name).get(title, []))
    most = max(found.values())
    return {row for row, number in found.items() if number > _SEVERAL}, {row for row in found if found[row] == most}


def _rows(listed: Iterable[tuple[str, str, str]]) -> list[str]:
    return [f"| <code>{flags}{value}</code> | {text} |" for flags, value, text in listed]


def _long(row: tuple[str, str, str]) -> str:
    return f"`{row[0].split(', ')[0]}`"


@cache
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
    """Return the options that several commands have, the patterns with names, or what each number means."""
    return {"options": _common_options, "patterns": _patterns, "numbers": _numbers}[name]()


def _common_options() -> str:
    from pipeline.cli import all_commands

    common, _ = _common()
    rows = dict.fromkeys(row for name in all_commands() for title in _WORK for row in _options_of(name).get(title, []))
    return "\n".join(["| option | |", "|---|---|", *_rows(row for row in rows if row in common)])


def _patterns() -> str:
    from pipeline.pattern.presets import PRESETS

    return "\n\n".join(
        f"`{preset.name}` {preset.help}.{_runtimes(preset)}\n\n```text\n{preset.expression}\n```"
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
    more = ["tokenizers 1.0"] if preset.run_by_tokenizers_1 else []
    more += [f"llama.cpp (`{preset.llama_cpp}`)"] if preset.llama_cpp else []
    return f" Also in {' and '.join(more)}." if more else ""


def _cell(text: str) -> str:
    return " ".join(html.escape(text, quote=False).split()).replace("|", "&#124;").replace("*", "&#42;")


if __name__ == "__main__":
    for page in sorted((HOME / "docs" / "pages" / "reference").rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        if (after := with_reference(before)) != before:
            page.write_text(after, encoding="utf-8")
