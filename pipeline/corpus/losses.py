"""What was not taken as it stood: the kinds of losses, their words, and how they add up.

A worker tallies what it met in its chunk, with the first places of each kind; the tallies of all chunks add up to
those of the run, in the order of the corpus. Every loss that a run can have is in `KINDS`, so the summary, the report
and `--fail-on-loss` speak of the same things.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from pipeline.base.errors import InputError

MOST_EXAMPLES = 8  # of each kind
MOST_RECORD_BYTES = 64 << 20  # of one line of JSON: what a worker would have to hold

KINDS = {
    "replacements": "invalid UTF-8 sequences replaced by U+FFFD",
    "documents_skipped": "documents with invalid UTF-8 skipped",
    "pieces_cut": "pieces cut at max_piece_bytes",
    "records_not_json": "records skipped: not a JSON object",
    "records_too_long": f"records skipped: longer than {MOST_RECORD_BYTES >> 20} MiB",
    "records_without_field": "records skipped: no text field",
    "records_not_text": "records skipped: the text field is not text",
    "files_empty": "files without text",
}

_PLURAL = re.compile(r"\b(sequence|document|piece|record|file)s\b")


class Tallied(TypedDict):
    """One kind of loss in plain values, as a counter's statistics hold it."""

    count: int
    examples: list[str]


Losses = Mapping[str, Tallied]


@dataclass(frozen=True)
class Loss:
    """One kind of loss for people: how often, what, and the first places."""

    kind: str
    what: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        what = _PLURAL.sub(r"\1", self.what, count=1) if self.count == 1 else self.what
        shown = "; ".join(self.examples[:3])
        return f"{self.count:,} {what}" + (f" (first: {shown})" if shown else "")


@dataclass
class Tally:
    """Losses as they are met."""

    found: dict[str, Tallied] = field(default_factory=dict)

    def add(self, kind: str, count: int, examples: Iterable[str] = ()) -> None:
        """So many more of a kind; of the examples the first few are kept."""
        if count == 0:
            return
        one = self.found.setdefault(kind, {"count": 0, "examples": []})
        one["count"] += count
        for example in examples:
            if len(one["examples"]) == MOST_EXAMPLES:
                break
            one["examples"].append(example)


def add_up(parts: Iterable[Losses]) -> dict[str, Tallied]:
    """The losses of several chunks as those of one; the order decides which examples are the first."""
    total = Tally()
    for part in parts:
        for kind, one in part.items():
            total.add(kind, one["count"], one["examples"])
    return total.found


def for_people(losses: Losses) -> tuple[Loss, ...]:
    """Losses in words, in the order of `KINDS`."""
    return tuple(
        Loss(kind, what, losses[kind]["count"], tuple(losses[kind]["examples"]))
        for kind, what in KINDS.items()
        if kind in losses
    )


def refusal(found: Iterable[Loss]) -> InputError:
    """What to raise where nothing may be lost."""
    told = ", ".join(map(str, found))
    return InputError(f"not everything was taken as it stood: {told}; mend it, or leave out --fail-on-loss")
