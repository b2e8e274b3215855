"""Docstrings as Markdown: what this project writes about arguments, a line `name: meaning` each, becomes a list."""

import re
from collections.abc import Iterator
from typing import Any

import griffe

_ARGUMENT = re.compile(r"^(\w+(?:, \w+)*): ")
_NEXT = re.compile(r"(?<=\.) (?=\w+(?:, \w+)*: )")  # another argument in the same line


class Arguments(griffe.Extension):
    """Rewrites each docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Make a list of the arguments that a docstring tells of."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def _one_a_line(text: str) -> Iterator[str]:
    """The lines of a docstring; where one tells of several arguments, each has its own."""
    for line in text.splitlines():
        yield from _NEXT.split(line) if _ARGUMENT.match(line) else [line]


def as_markdown(text: str) -> str:
    """The docstring with its arguments as a list."""
    lines: list[str] = []
    for line in _one_a_line(text):
        argument = _ARGUMENT.match(line)
        if argument is None:
            lines.append(line)
            continue
        names = ", ".join(f"`{name}`" for name in argument[1].split(", "))
        if lines and lines[-1] and not lines[-1].startswith(("- ", "    ")):
            lines.append("")
        lines.append(f"- {names}: {line[argument.end() :]}")
    return "\n".join(lines)
