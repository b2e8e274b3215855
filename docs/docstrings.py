"""Docstrings as Markdown: examples outside an `Examples:` section become blocks of code."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Examples(griffe.Extension):
    """Rewrite each docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of an object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return the docstring with each example, up to the next empty line, between fences."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", text)
