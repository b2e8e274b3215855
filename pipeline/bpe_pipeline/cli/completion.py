"""What a shell completes: names that an option may have, or files."""

from typing import Any

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from bpe_pipeline.run.record import Record


class Word(StringParamType):
    """A text that the record of an option reads later, and what completes it."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text as it is; of one that is no path, the UTF-8 that its bytes are."""
        del param, ctx
        return value if self._record.is_path or not isinstance(value, str) else as_utf8(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete one of the names, or of several with commas."""
        del ctx, param
        record = self._record
        files = [CompletionItem(incomplete, type="file")]  # the shell knows its files
        if record.is_path:
            return files
        listed, comma, last = incomplete.rpartition(",")
        names = record.choices if record.examples is None else record.examples()
        items = [CompletionItem(listed + comma + name) for name in names if name.startswith(last)]
        return items + (files if record.alone else [])  # the next word can be an INPUT


def as_utf8(word: str) -> str:
    """Return a word as the UTF-8 that its bytes are; where the locale is not UTF-8, Python escapes them one by one."""
    try:
        return word.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        return word  # its reader refuses it
