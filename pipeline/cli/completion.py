"""Types of what is typed: how a text is parsed, and what a shell completes in it: names that it may have, or files."""

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from pipeline.base.units import parse_whole_number
from pipeline.run.record import Record
from pipeline.run.values import EXPORT_FORMATS, shard_formats
from pipeline.storage import parse_location

_NAMES = {
    "vocab_size": ("8000", "16000", "32000", "64000", "128000", "256000"),
    "export": EXPORT_FORMATS,
    "ray": ("auto",),
}


class Text(StringParamType):
    """A text with its reader, which raises ValueError with what it expects, and what completes it."""

    def __init__(self, parse: Callable[[Any], Any] | None, complete: Callable[[str], list[CompletionItem]]) -> None:
        self._parse, self._complete = parse, complete

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the command takes; without a reader, the option's own one reads it later."""
        del param, ctx
        try:
            return value if self._parse is None else self._parse(value)
        except ValueError as error:
            raise click.BadParameter(f"expected {error}, not {value!r}") from None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete what is typed."""
        del param, ctx
        return self._complete(incomplete)


def _files(incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]  # the shell knows its files


LOCATION, PATH_TEXT = Text(parse_location, _files), Text(None, _files)


def whole_number(at_least: int) -> Text:
    """Return the type of a whole number as every option reads it: 5000, 5,000 or 5k."""
    return Text(parse_whole_number(at_least, (1 << 63) - 1), lambda _: [])


def names(option: Record) -> Text:
    """Return the type of one of the names of an option, or of several with commas."""

    def complete(incomplete: str) -> list[CompletionItem]:
        listed, comma, last = incomplete.rpartition(",")
        known = _NAMES.get(option.name, option.choices)
        if option.name == "pattern":
            from pipeline.pattern.presets import PRESETS  # takes time, which only completion has

            known = tuple(PRESETS)
        if option.name == "shard_format":
            known = tuple(shard_formats())
        found = [CompletionItem(listed + comma + name) for name in known if name.startswith(last)]
        return found + (_files(incomplete) if option.name == "ray" else [])  # the next word can be an INPUT

    return Text(None, complete)
