"""How differently languages are compressed that chose the merges of one vocabulary (`merge --parity`)."""

from dataclasses import dataclass

from pipeline.merges.merge_list import MergeList
from pipeline.reports.measure import gini
from pipeline.run.parity import Parity


@dataclass(frozen=True)
class LanguageTokens:
    """The texts of a language that were measured."""

    name: str
    bytes: int
    tokens: int
    merges: int  # that it chose

    def __str__(self) -> str:
        rate = self.bytes / max(self.tokens, 1)
        return f"{self.tokens:,} tokens of {rate:.3f} bytes each; it chose {self.merges:,} merges"


@dataclass(frozen=True)
class Languages:
    """All of them, and the Gini coefficient of their lengths before merging, in bytes, and after, in tokens."""

    measured: tuple[LanguageTokens, ...]
    merges: int
    gini_before: float
    gini_after: float

    def __str__(self) -> str:
        before, after = (
            f"{self.gini_before:.3f} in bytes",
            f"{self.gini_after:.3f} in tokens after {self.merges:,} merges",
        )
        return f"{len(self.measured)}, whose texts differ in length by a Gini coefficient of {before}, {after}"


def languages_of(learned: MergeList, parity: Parity | None) -> Languages | None:
    """Return how the merges of a list compress each language; None if they were not chosen by parity."""
    if learned.chosen is None or parity is None:
        return None
    by = list(learned.chosen.by)
    measured = tuple(
        LanguageTokens(one.name, size, tokens, by.count(index))
        for index, (one, (size, tokens)) in enumerate(zip(parity.languages, learned.chosen.measured, strict=True))
    )
    before, after = (gini([getattr(one, name) for one in measured]) or 0.0 for name in ("bytes", "tokens"))
    return Languages(measured, len(learned), before, after)
