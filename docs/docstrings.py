"""Docstrings as Markdown: examples outside an `Examples:` section become blocks of code."""

import re
from typing import Any

import griffe

import pipeline

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Examples(griffe.Extension):
    """Rewrite each docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of an object's docstring; to that of a public function its options have been added."""
        if obj.docstring is not None:
            if obj.is_function and obj.name in pipeline.__all__:
                obj.docstring.value = str(getattr(pipeline, obj.name).__doc__)
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return the docstring with each example, up to the next empty line, between fences."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", text)
