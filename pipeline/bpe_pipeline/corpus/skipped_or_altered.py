"""Input that was skipped or altered: its kinds, their words, and how the tallies of chunks add up.

Every kind is in `KINDS`, so the summary, the report and `--fail-on-loss` agree. Extensions add theirs when they are
loaded. On disk a tally is called `losses`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from bpe_pipeline.base.errors import InputError

MOST_EXAMPLES = 8  # of each kind
MOST_LINE_BYTES = 64 << 20  # of a record of JSON Lines, or a line of text: a worker holds it whole

KINDS = {
    "replacements": "invalid UTF-8 sequences replaced by U+FFFD",
    "files_hardly_text": "files more than a tenth of which is U+FFFD in place of invalid UTF-8",
    "files_with_nuls": "files read as text of which more than a hundredth are NUL bytes, as in UTF-16",
    "files_like_json": "files read as text of which most lines begin with { and end with }, as JSON Lines do",
    "files_of_other_formats": "files read as text that begin as another format does",
    "documents_skipped": "documents with invalid UTF-8 skipped",
    "records_not_json": "records skipped: not a JSON object",
    "records_too_long": f"records skipped: longer than {MOST_LINE_BYTES >> 20} MiB",
    "records_without_field": "records skipped: no text field",
    "records_not_text": "records skipped: the text field is not text",
    "records_html": "records skipped: HTML, not plain text",
    "records_other_media": "records skipped: neither plain text nor HTML",
    "files_empty": "files without text",
}

_NO_TEXT = "leave out what is no text, or convert it to UTF-8"
_REMEDIES = {
    "files_hardly_text": _NO_TEXT,
    "files_with_nuls": _NO_TEXT,
    "files_like_json": "name them .jsonl, or give --input-format jsonl; if they are text, --input-format text",
    "files_of_other_formats": "convert them, leave them out, or give --input-format text",
}
_LOCATION = re.compile(r", (?:byte|row) \d+(?: of the decompressed text)?(?:, .*)?$", re.DOTALL)
_PLURAL = re.compile(r"\b(\w+)s\b")  # the first one is what is counted


def add_kinds(kinds: Mapping[str, str]) -> None:
    """Add the kinds of an extension, each with its words in the plural."""
    KINDS.update(kinds)


class KindTally(TypedDict):
    """How often one kind occurred, and the first locations, in plain values."""

    count: int
    examples: list[str]


Tallies = Mapping[str, KindTally]  # by kind


@dataclass(frozen=True)
class SkippedOrAltered:
    """One kind in words: how often, what, and the first locations."""

    kind: str
    what: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        shown = "; ".join(self.examples[:3])
        return self._counted() + (f" (first: {shown})" if shown else "")

    def _counted(self) -> str:
        return f"{self.count:,} " + (_PLURAL.sub(r"\1", self.what, count=1) if self.count == 1 else self.what)

    def without_locations(self) -> str:
        """Return how often and what, and in how many files as far as the examples say."""
        files = len({_LOCATION.sub("", example) for example in self.examples})
        or_more = " or more" if self.count > len(self.examples) else ""
        return self._counted() + (
            f" in {files}{or_more} files" if files > 1 and not self.kind.startswith("files") else ""
        )


@dataclass
class Tally:
    """Skipped or altered input as it occurs."""

    kinds: dict[str, KindTally] = field(default_factory=dict)

    def add(self, kind: str, count: int, examples: Iterable[str] = ()) -> None:
        """Add `count` of a kind; keep the first few examples."""
        if count == 0:
            return
        tally = self.kinds.setdefault(kind, {"count": 0, "examples": []})
        tally["count"] += count
        for example in examples:
            if len(tally["examples"]) == MOST_EXAMPLES:
                break
            tally["examples"].append(example)


def add_up(tallies: Iterable[Tallies]) -> dict[str, KindTally]:
    """Add up the tallies of several chunks; their order decides which examples are the first."""
    total = Tally()
    for tally in tallies:
        for kind, counted in tally.items():
            total.add(kind, counted["count"], counted["examples"])
    return total.kinds


def in_words(tallies: Tallies) -> tuple[SkippedOrAltered, ...]:
    """Return tallies in words, in the order of `KINDS`."""
    return tuple(
        SkippedOrAltered(kind, what, tallies[kind]["count"], tuple(tallies[kind]["examples"]))
        for kind, what in KINDS.items()
        if kind in tallies
    )


def warnings_of(tallies: Tallies) -> list[str]:
    """Return what to warn of, naming files: those that are not plain text by the look of them."""
    return [f"{skipped}; {_REMEDIES[skipped.kind]}" for skipped in in_words(tallies) if skipped.kind in _REMEDIES]


def in_one_line(kinds: Sequence[SkippedOrAltered], where: str) -> list[str]:
    """Return what a summary says: one occurrence with its location, else numbers, and the file that has locations."""
    if not kinds or sum(kind.count for kind in kinds) == 1:
        return list(map(str, kinds))
    return [f"{'; '.join(kind.without_locations() for kind in kinds)}: {where}"]


def fail_on_loss_error(kinds: Iterable[SkippedOrAltered]) -> InputError:
    """Return the error of `--fail-on-loss`."""
    listed = ", ".join(map(str, kinds))
    return InputError(f"input was skipped or altered: {listed}; fix the input, or drop --fail-on-loss")
