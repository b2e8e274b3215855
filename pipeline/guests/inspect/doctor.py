"""The story of `doctor`: examine a tokenizer; its findings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.base.errors import InputError, RunDirectoryError
from pipeline.guests.inspect.findings import ADVICE, FINE, NOT_CHECKED, WRONG, Finding, examine
from pipeline.reports.result import NOT_STORED, Part, Result, Rows
from pipeline.run import manifest
from pipeline.run.keywords import AnyPath
from pipeline.run.options import CorpusOptions, make_options
from pipeline.storage import Location, named, parse_location, same_location
from pipeline.tokenizer.check import texts_to_check

_ORDER = (FINE, NOT_CHECKED, ADVICE, WRONG)  # what matters is last, where a terminal ends


@dataclass(frozen=True)
class Examined(Result):
    """What was found out about a tokenizer; as text, what matters is last."""

    tokenizer: Location
    findings: tuple[Finding, ...]
    strict: bool = field(default=False, metadata=NOT_STORED)  # advice counts as wrong

    def of(self, *outcomes: str) -> tuple[Finding, ...]:
        """Return the findings with one of these outcomes: "fine", "not checked", "advice", "wrong"."""
        return tuple(one for one in self.findings if one.outcome in outcomes)

    @property
    def _bad(self) -> int:
        return len(self.of(WRONG, *([ADVICE] if self.strict else [])))

    @property
    def exit_code(self) -> int:
        """1 if something is wrong."""
        return 1 if self._bad else 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values; wrong: the number of findings that are."""
        return super().to_json() | {"wrong": self._bad}

    def shown(self) -> Iterable[Part]:
        """Return a row for each finding, and one for its remedy."""
        listed = sorted(self.findings, key=lambda one: _ORDER.index(one.outcome))
        rows: list[tuple[str, str]] = []
        for one in listed:
            rows.append((f"{one.outcome}:", f"{one.what}: {one.message}"))
            rows += [("", f"remedy: {one.remedy}")] if one.remedy else []
        yield Rows(tuple(rows))


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
    samples = make_options(CorpusOptions, {"inputs": inputs}).inputs or ()
    where = named(path)
    if isinstance(where, Path) and not where.exists():
        raise InputError(f"{path} does not exist: give a run directory, a tokenizer's directory, or its tokenizer.json")
    own = manifest.run_of(where)
    if own is not None and same_location(where, own.directory.location) and not own.manifest.tokenizers:
        raise RunDirectoryError(f"{path} has no tokenizer yet: bpe-pipeline merge {path}")
    run = own if counts is None else manifest.require(named(counts, "counts"))
    counted = run is not None and run.counter_path.exists()
    texts = texts_to_check(own, list(map(parse_location, samples)))
    return Examined(where, tuple(examine(where, texts, run if counted else None)))
