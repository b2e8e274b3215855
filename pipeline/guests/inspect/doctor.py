"""The story of `doctor`: examine a tokenizer and print the findings."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pipeline.base.errors import InputError, RunDirectoryError
from pipeline.base.printable import printable_lines
from pipeline.guests.inspect.findings import ADVICE, FINE, NOT_CHECKED, WRONG, Finding, examine
from pipeline.reports import progress
from pipeline.run import manifest
from pipeline.storage import Location, same_location
from pipeline.tokenizer.check import texts_to_check

_ORDER = (FINE, NOT_CHECKED, ADVICE, WRONG)  # what matters is last, where a terminal ends


def doctor_command(
    path: Location, samples: Sequence[Location], counts: Location | None, *, strict: bool, as_json: bool
) -> int:
    """Print the findings; returns the exit code: 1 if something is wrong, or with `strict` if there is advice."""
    if isinstance(path, Path) and not path.exists():
        raise InputError(f"{path} does not exist: give a run directory, a tokenizer's directory, or its tokenizer.json")
    own = manifest.run_of(path)
    if own is not None and same_location(path, own.directory.location) and not own.manifest.tokenizers:
        raise RunDirectoryError(f"{path} has no tokenizer yet: bpe-pipeline merge {path}")
    run = own if counts is None else manifest.require(counts)
    counted = run is not None and run.counter_path.exists()
    found = examine(path, texts_to_check(own, samples), run if counted else None)
    bad = [one for one in found if one.outcome == WRONG or (strict and one.outcome == ADVICE)]
    if as_json:
        progress.write(json.dumps({"tokenizer": str(path), "wrong": len(bad), "findings": list(map(asdict, found))}))
    else:
        for one in sorted(found, key=lambda one: _ORDER.index(one.outcome)):
            progress.write(_line(one))
    return 1 if bad else 0


def _line(one: Finding) -> str:
    remedy = [f"{'':13}remedy: {one.remedy}"] if one.remedy else []
    return printable_lines([f"{one.outcome + ':':13}{one.what}: {one.message}", *remedy])
