"""Values that declarations share: of Python, of tokenizers, of runs."""

from collections.abc import Iterable
from os import PathLike
from typing import Any

from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.storage import Location, Remote, parse_location


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


class ValuesOptions(TrainOptions):
    """Of training on values of Python: no file is read, on one machine. Fields without a record are no options."""

    inputs: tuple[str, ...] | None = None
    files_from: Location | None = None
    exclude: tuple[str, ...] | None = None
    weights: tuple[str, ...] | None = None
    temperature: str | None = None
    shares: tuple[str, ...] | None = None
    ray: str | None = None
    dry_run: bool = False


def facts() -> Any:
    """Import the type of facts by name."""
    from bpe_pipeline.reports.result import Facts

    return Facts


def tokenizer_of() -> Any:
    """Import what makes a tokenizer of what was trained."""
    from bpe_pipeline.commands.tokenizers import first_tokenizer

    return first_tokenizer
