"""Where counts come from that were not counted from a corpus listing: runs that were combined, imported counts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from bpe_pipeline.run.mixture import Mixture, Row, short, table_of
from bpe_pipeline.run.values import shown_weight


@dataclass(frozen=True)
class Weighted:
    """A run that was combined, by its location and the fingerprint of its counts; its weight is a fraction."""

    run: str
    counts: str
    weight: tuple[int, int]
    bytes: int = 0  # of the text in its counts, with its own weights; 0: unknown

    @property
    def shown_weight(self) -> str:
        """The weight, as a person writes it."""
        return shown_weight(Fraction(*self.weight))


@dataclass(frozen=True)
class Source:
    """The origin of counts that were not counted from a corpus listing."""

    kind: str  # RUNS, IMPORTED, "iterator", or that of an extension's chooser
    digest: str  # of all that counts depend on besides options; of an iterator, which cannot be read again, random
    description: str  # for people
    mixed: tuple[Weighted, ...] = ()  # the runs that were combined
    chosen_by: dict[str, Any] = field(default_factory=dict)  # the fields of the extension's chooser
    counted: tuple[Weighted, ...] = ()  # where one of the mixed was combined itself: the runs that were not
    weighted: bool = False  # whether counts were multiplied, in a run that was combined or here
    mixture: Mixture | None = None  # what made the weights of the mixed

    @property
    def parts(self) -> tuple[Weighted, ...]:
        """The runs whose counts were added up; a combined run is replaced by its parts, with products of weights."""
        return self.counted or self.mixed

    @property
    def scale(self) -> int:
        """The number that makes all weights whole."""
        return math.lcm(*(part.weight[1] for part in self.parts))

    @property
    def texts(self) -> list[Row]:
        """The runs that were combined, with their weights; none without weights, or if their bytes are unknown."""
        if self.mixture is None and all(one.weight == (1, 1) for one in self.mixed):
            return []
        names = [one.run for one in self.mixed]
        last = list(map(short, names))
        return rows_of(last if len({*last}) == len(last) else names, self.mixed)


def rows_of(names: Sequence[str], mixed: Sequence[Weighted]) -> list[Row]:
    """Return runs with their weights as a table; no row if the bytes of one are unknown."""
    sizes = [one.bytes for one in mixed]
    return table_of(names, sizes, [str(Fraction(*one.weight)) for one in mixed]) if all(sizes) else []
