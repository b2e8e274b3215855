"""The story of `doctor`: examine a tokenizer, and print the findings."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.base.errors import InputError, RunDirectoryError
from pipeline.base.printable import printable_lines
from pipeline.guests.inspect.findings import ADVICE, FINE, NOT_CHECKED, WRONG, Finding, examine
from pipeline.reports import progress
from pipeline.run import manifest
from pipeline.run.option_types import AnyPath
from pipeline.run.options import make_options
from pipeline.storage import Location, named, parse_location, same_location
from pipeline.tokenizer.check import texts_to_check

_ORDER = (FINE, NOT_CHECKED, ADVICE, WRONG)  # what matters is last, where a terminal ends


@dataclass(frozen=True)
class Examined:
    """What was found out about a tokenizer; as text, what matters is last."""

    tokenizer: Location
    findings: tuple[Finding, ...]

    def of(self, *outcomes: str) -> tuple[Finding, ...]:
        """Return the findings with one of these outcomes: "fine", "not checked", "advice", "wrong"."""
        return tuple(one for one in self.findings if one.outcome in outcomes)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; wrong: the number of findings that are."""
        found = list(map(asdict, self.findings))
        return {"tokenizer": str(self.tokenizer), "wrong": len(self.of(WRONG)), "findings": found}

    def __str__(self) -> str:
        return "\n".join(_line(one) for one in sorted(self.findings, key=lambda one: _ORDER.index(one.outcome)))


def doctor(
    path: AnyPath, inputs: AnyPath | Sequence[AnyPath] | None = None, *, counts: AnyPath | None = None
) -> Examined:
    """Find what is wrong with a tokenizer, each with a remedy, as `bpe-pipeline doctor` does.

    >>> examined = pipeline.doctor("my-tokenizer")
    >>> examined.of("wrong")
    ()
    >>> [one.what for one in examined.of("advice")]
    ['special tokens']

    Args:
        path: the tokenizer's directory or file, of this package or another's; or a run; a path or a URI.
        inputs: text to compare runtimes on, besides hard strings; None: a sample of the run's corpus.
        counts: a run whose counts say which tokens are used; None: the tokenizer's own.

    Returns:
        A value with the `findings`; printed, it is what the command prints.

    Raises:
        InputError: there is no such path, or text that cannot be read.
        RunDirectoryError: a run has no tokenizer yet, or is damaged.
    """
    samples = make_options({"inputs": inputs}).inputs or ()
    run = None if counts is None else named(counts, "counts")
    return _examined(named(path), [parse_location(one) for one in samples], run)


def doctor_command(
    path: Location, samples: Sequence[Location], counts: Location | None, *, strict: bool, as_json: bool
) -> int:
    """Print the findings; returns the exit code: 1 if something is wrong, or with `strict` if there is advice."""
    found = _examined(path, samples, counts)
    bad = len(found.of(WRONG, *([ADVICE] if strict else [])))
    progress.write(json.dumps(found.to_json() | {"wrong": bad}) if as_json else str(found))
    return 1 if bad else 0


def _examined(path: Location, samples: Sequence[Location], counts: Location | None) -> Examined:
    if isinstance(path, Path) and not path.exists():
        raise InputError(f"{path} does not exist: give a run directory, a tokenizer's directory, or its tokenizer.json")
    own = manifest.run_of(path)
    if own is not None and same_location(path, own.directory.location) and not own.manifest.tokenizers:
        raise RunDirectoryError(f"{path} has no tokenizer yet: bpe-pipeline merge {path}")
    run = own if counts is None else manifest.require(counts)
    counted = run is not None and run.counter_path.exists()
    return Examined(path, tuple(examine(path, texts_to_check(own, samples), run if counted else None)))


def _line(one: Finding) -> str:
    remedy = [f"{'':13}remedy: {one.remedy}"] if one.remedy else []
    return printable_lines([f"{one.outcome + ':':13}{one.what}: {one.message}", *remedy])
