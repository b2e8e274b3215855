"""Readers of arguments that are no text: tokenizers, runs, what Python hands over as it is."""

from collections.abc import Iterable
from os import PathLike
from typing import Any

from pipeline.storage import Location, Remote, parse_location


def as_given(value: object) -> Any:
    """Return a value, which the story reads."""
    return value


def parse_tokenizer(value: object) -> Any:
    """Read the location of a tokenizer; the story takes a tokenizer itself, or refuses another object."""
    return parse_location(value) if isinstance(value, str | PathLike | Remote) else value


def parse_runs(value: object) -> tuple[Location, ...]:
    """Read a list of run directories."""
    if isinstance(value, str | PathLike | Remote) or not isinstance(value, Iterable):
        raise ValueError("a list of run directories")
    runs = []
    for run in value:
        try:
            runs.append(parse_location(run))
        except ValueError as error:
            raise ValueError(str(error), run) from None
    return tuple(runs)
