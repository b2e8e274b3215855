"""What a shell completes after an option: the names that it may have, or files."""

from typing import Any

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from pipeline.base.units import parse_whole_number
from pipeline.run.options import Record
from pipeline.run.values import EXPORT_FORMATS, SHARD_FORMATS
from pipeline.storage import Location, parse_location

_SIZES = ("8000", "16000", "32000", "64000", "128000", "256000")


def location_type(text: str) -> Location:
    """Parse a path or URI given as an argument or flag."""
    try:
        return parse_location(text)
    except ValueError as error:
        raise click.BadParameter(f"expected {error}, not {text!r}") from None


class _PathText(StringParamType):
    """A path or URI; parsed, unless it is left to the option's own reader."""

    def __init__(self, *, parsed: bool) -> None:
        self._parsed = parsed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the command takes."""
        del param, ctx
        return location_type(value) if self._parsed else value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Leave it to the shell, which knows its files."""
        del ctx, param
        return [CompletionItem(incomplete, type="file")]


LOCATION, PATH_TEXT = _PathText(parsed=True), _PathText(parsed=False)


class WholeNumber(StringParamType):
    """A whole number as every option reads it: 5000, 5,000 or 5k."""

    def __init__(self, at_least: int) -> None:
        self._parse = parse_whole_number(at_least, (1 << 63) - 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        del param, ctx
        try:
            return self._parse(value)
        except ValueError as error:
            raise click.BadParameter(f"expected {error}, not {value!r}") from None


class Names(StringParamType):
    """One of the names of an option, or several with commas; any other text is left to the option's own reader."""

    def __init__(self, option: Record) -> None:
        self._option = option

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the last name."""
        del ctx, param
        listed, comma, last = incomplete.rpartition(",")
        return [CompletionItem(listed + comma + name) for name in self._names() if name.startswith(last)]

    def _names(self) -> tuple[str, ...]:
        if self._option.name == "pattern":
            from pipeline.pattern.presets import PRESETS  # takes time, which only completion has

            return tuple(PRESETS)
        known = {
            "vocab_size": _SIZES,
            "export": EXPORT_FORMATS,
            "ray_address": ("auto",),
            "shard_format": SHARD_FORMATS,
        }
        return known.get(self._option.name, self._option.choices)
