"""Insert generated content into the pages when the site is built, so that each text has one source.

<!-- figure cuts -->            a drawing of figures.py
<!-- chart trainers -->         a chart of benchmarks/plots
<!-- setup ... -->              removed: blocks that only the tests need

Next to each page is its Markdown, for agents, and llms.txt lists all of them (llmstxt.org).

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
from typing import Any, NamedTuple

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
_SETUP = re.compile(r"^<!-- setup\n.*?^-->\n", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_WORK = ("Resources", "Other")  # groups of options that say how a command works, not what it makes
_EXAMPLES = 2  # of a command; its help has all
_SEVERAL = 3  # commands that have the same option
_pages: dict[str, str] = {}  # Markdown by path, of a build


class _Option(NamedTuple):
    """An option of a command: its flag, what it takes, a short flag, and its help, as Markdown."""

    flag: str
    value: str
    short: str
    text: str


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the marks of a page by their content; what those of the reference enclose is in the page already."""
    without = _MADE_MARKS.sub("", _SETUP.sub("", markdown))
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
    """Return what a command does, its usage, two examples of its help, and its options by their groups.

    Options of how it works that several commands have are only named, and so are those that `train` has, too.
    """
    import click

    from bpe_pipeline.cli import all_commands

    command, groups, (common, every) = all_commands()[name], _options_of(name), _common()
    usage = " ".join(filter(None, ["bpe-pipeline", name, *command.collect_usage_pieces(click.Context(command))]))
    known = {row for listed in _options_of("train").values() for row in listed} if name != "train" else set()
    said, _, examples = (command.help or "").partition("\n\b\n")
    shown = [line for line in examples.splitlines() if line.startswith(f"bpe-pipeline {name} ")][:_EXAMPLES]
    parts = [said.partition("\n")[0], f"`{usage}`"]
    parts += ["\n".join(["```sh", *shown, "```"])] if shown else []
    for title, listed in groups.items():
        if own := [row for row in listed if row not in known | common]:
            parts += [f"**{title}**", _rows(own)]
    options = [row for listed in groups.values() for row in listed]
    if same := [f"`{row.flag}`" for row in options if row in known - common]:
        parts.append(f"**Same as in [`train`](train.md)**: {', '.join(same)}.")
    if same := [f"`{row.flag}`" for row in options if row in common - every]:
        parts.append(f"**[Common options](../command.md#common-options)**: {', '.join(same)}.")
    return "\n\n".join(parts)


@cache
def _common() -> tuple[set[_Option], set[_Option]]:
    """Return the options of how a command works that several commands have, and those that all have."""
    from bpe_pipeline.cli import all_commands

    found = Counter(row for name in all_commands() for title in _WORK for row in _options_of(name).get(title, []))
    most = max(found.values())
    return {row for row, number in found.items() if number > _SEVERAL}, {row for row in found if found[row] == most}


def _rows(listed: Iterable[_Option]) -> str:
    return "\n".join(
        f"- `{one.flag}{one.value}`{', `' + one.short + '`' if one.short else ''}: {one.text}" for one in listed
    )


@cache
def _options_of(name: str) -> dict[str, list[_Option]]:
    """Return the options of a command by their groups."""
    import click

    from bpe_pipeline.cli import all_commands

    command, found = all_commands()[name], dict[str, list[_Option]]()
    for title, flags in command.groups(click.Context(command)).items():
        shown = [flag for flag in flags if not flag.is_eager]  # --help, which click spells as its first caller does
        found[title] = [
            _Option(
                flag.opts[0],
                "" if flag.is_flag else f" {flag.metavar or 'VALUE'}",
                ", ".join(flag.opts[1:]),
                " ".join(html.escape(flag.help or "", quote=False).split()).replace("*", "\\*"),
            )
            for flag in shown
        ]
    return found


def list_of(name: str) -> str:
    """Return the options that several commands have, the patterns with names, or what each number means."""
    return {"options": _common_options, "patterns": _patterns, "numbers": _numbers}[name]()


def _common_options() -> str:
    from bpe_pipeline.cli import all_commands

    common, _ = _common()
    rows = dict.fromkeys(row for title in _WORK for name in all_commands() for row in _options_of(name).get(title, []))
    return _rows(row for row in rows if row in common)


def _patterns() -> str:
    from bpe_pipeline.pattern.presets import PRESETS

    return "\n\n".join(
        f"`{preset.name}` {preset.help}.{_runtimes(preset)}\n\n```text\n{preset.expression}\n```"
        for preset in PRESETS.values()
    )


def _numbers() -> str:
    from bpe_pipeline.reports.definitions import NUMBERS

    better = {1: "more", -1: "less", 0: ""}
    rows = ["| name | in tables | better | what it is |", "|---|---|---|---|"]
    for name, one in NUMBERS.items():
        said = f"{one.meaning} ({one.source})" if one.source else one.meaning
        rows.append(f"| `{name}` | {one.title} | {better[one.better]} | {said} |")
    return "\n".join(rows)


def _runtimes(preset: Any) -> str:
    more = ["tokenizers 1.0"] if preset.run_by_tokenizers_1 else []
    more += [f"llama.cpp (`{preset.llama_cpp}`)"] if preset.llama_cpp else []
    return f" Also in {' and '.join(more)}." if more else ""


if __name__ == "__main__":
    for page in sorted((HOME / "docs" / "pages" / "reference").rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        if (after := with_reference(before)) != before:
            page.write_text(after, encoding="utf-8")
