"""Values that declarations share: of Python, of tokenizers, of runs."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

from bpe_pipeline.storage import Remote, parse_location


def as_given(value: object) -> Any:
    """Return a value, which the story reads."""
    return value


def parse_tokenizer(value: object) -> Any:
    """Read the location of a tokenizer; the story takes a tokenizer itself, or refuses another object."""
    return parse_location(value) if isinstance(value, str | PathLike | Remote) else value


def parse_runs(value: object) -> tuple[Any, ...]:
    """Read a list of run directories, files of counts, and mappings of pre-tokens to counts; or one mapping."""
    listed = [value] if isinstance(value, Mapping) else value
    if isinstance(listed, str | PathLike | Remote | bytes) or not isinstance(listed, Iterable):
        raise ValueError("a list of run directories, of files of counts, or of mappings from pre-tokens to counts")
    runs = []
    for run in listed:
        try:
            runs.append(run if isinstance(run, Mapping) else parse_location(run))
        except ValueError as error:
            raise ValueError(str(error), run) from None
    return tuple(runs)


def facts() -> Any:
    """Import the type of facts by name."""
    from bpe_pipeline.reports.result import Facts

    return Facts


def tokenizer_of() -> Any:
    """Import what makes a tokenizer of what was trained."""
    from bpe_pipeline.commands.tokenizers import first_tokenizer

    return first_tokenizer
