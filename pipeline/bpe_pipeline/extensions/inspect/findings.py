"""What was found out about tokenizers, and how much of it is shown: JSON has all."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bpe_pipeline.reports.parts import Part, Rows
from bpe_pipeline.reports.result import NOT_STORED, Advice, Result
from bpe_pipeline.storage import Location

FINE, ADVICE, WRONG, NOT_CHECKED = "fine", "advice", "wrong", "not checked"
_ORDER = (FINE, NOT_CHECKED, ADVICE, WRONG)  # what matters is last, where a terminal ends


def finding(outcome: str, because: str, take: str = "", /, **evidence: Any) -> Advice:
    """Return what one check found: its outcome, what it rests on, the remedy, and the numbers."""
    return Advice("", take, because, evidence=evidence, outcome=outcome)


EXAMPLES = 5  # that are shown of each kind


def first_of(parts: Sequence[str], between: str = ", ", total: int = 0) -> str:
    """Return the first few of several texts as one, and how many more there are; total: if `parts` are not all."""
    more = max(total, len(parts)) - EXAMPLES
    return between.join([*parts[:EXAMPLES], *([f"... and {more:,} more"] if more > 0 else [])])


def first_lines(found: Sequence[object]) -> list[str]:
    """Return the first few of what was found, a line each, and how many more there are."""
    more = [f"... and {len(found) - EXAMPLES:,} more: --json has all"] if len(found) > EXAMPLES else []
    return [*map(str, found[:EXAMPLES]), *more]


def command(*words: object) -> str:
    """Return a command of this package, quoted for a shell."""
    return shlex.join(["bpe-pipeline", *map(str, words)])


@dataclass(frozen=True)
class Examined(Result):
    """What was found out about a tokenizer; as text, what matters is last."""

    tokenizer: Location
    findings: tuple[Advice, ...]
    strict: bool = field(default=False, metadata=NOT_STORED)  # advice counts as wrong; 3 if anything is not checked

    def of(self, *outcomes: str) -> tuple[Advice, ...]:
        """Return the findings with one of these outcomes: "fine", "not checked", "advice", "wrong"."""
        return tuple(finding for finding in self.findings if finding.outcome in outcomes)

    @property
    def _bad(self) -> int:
        return len(self.of(WRONG, *([ADVICE] if self.strict else [])))

    @property
    def exit_code(self) -> int:
        """1 if something is wrong, 3 if nothing could be checked; if `strict`, 3 if anything could not be."""
        unchecked = self.of(NOT_CHECKED)
        return 1 if self._bad else 3 if unchecked and (self.strict or len(unchecked) == len(self.findings)) else 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values; wrong: the number of findings that are."""
        return super().to_json() | {"wrong": self._bad}

    def shown(self) -> Iterable[Part]:
        """Return a row for each finding, and one for the remedy of those with the same; of a kind the first five."""
        kinds: dict[tuple[str, str, str], list[Advice]] = {}
        for finding in sorted(self.findings, key=lambda one: _ORDER.index(one.outcome)):
            kinds.setdefault((finding.outcome, finding.about, finding.take), []).append(finding)
        rows: list[tuple[str, object]] = []
        for (outcome, what, remedy), alike in kinds.items():
            rows.append((f"{outcome}:", first_lines([f"{what}: {one.because}" for one in alike])))
            rows += [("", f"remedy: {remedy}")] if remedy else []
        yield Rows(tuple(rows))
