"""What was combined into a run: texts with their weights."""

import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.units import format_count
from bpe_pipeline.run.mixture import Mixture, Row, short, table_of
from bpe_pipeline.run.values import parse_weight, relative, shown_weight

_MOST_SHOWN = 8


@dataclass(frozen=True)
class Text:
    """A run that was combined, by its location, or counts of another program. key: of its counts.

    weight: a fraction, relative to those of the others. bytes: of its counts, with its own weights; 0: unknown.
    """

    name: str
    key: str
    weight: tuple[int, int] = (1, 1)
    bytes: int = 0
    is_run: bool = True

    @property
    def shown_weight(self) -> str:
        """The weight, as a person writes it."""
        return shown_weight(Fraction(*self.weight))


@dataclass(frozen=True)
class Source:
    """The origin of counts that were not counted from a corpus listing."""

    kind: str  # COMBINED, "iterator", or that of an extension's chooser
    digest: str  # of all that counts depend on besides options; of an iterator, which cannot be read again, random
    description: str  # for people
    texts: tuple[Text, ...] = ()  # what was combined
    chosen_by: dict[str, Any] = field(default_factory=dict)  # the fields of the extension's chooser
    weighted: bool = False  # whether counts were multiplied, in a run that was combined or here
    mixture: Mixture | None = None  # what made the weights of the texts
    counted: tuple[Text, ...] = ()  # where one of the texts was combined itself: the runs that were not

    @property
    def parts(self) -> tuple[Text, ...]:
        """The runs whose counts were added up; a combined run is replaced by its parts, with products of weights."""
        return self.counted or self.texts

    @property
    def scale(self) -> int:
        """The number that makes all weights whole."""
        return math.lcm(*(part.weight[1] for part in self.parts))

    @property
    def rows(self) -> list[Row]:
        """The texts with their weights; none without weights, or if their bytes are unknown."""
        if self.mixture is None and all(text.weight == (1, 1) for text in self.texts):
            return []
        names = [text.name for text in self.texts]
        last = list(map(short, names))
        return rows_of(last if len({*last}) == len(last) else names, self.texts)


def rows_of(names: Sequence[str], texts: Sequence[Text]) -> list[Row]:
    """Return texts with their weights as a table; no row if the bytes of one are unknown."""
    sizes = [text.bytes for text in texts]
    return table_of(names, sizes, [str(Fraction(*text.weight)) for text in texts]) if all(sizes) else []


def described(names: Sequence[str], weights: Sequence[Fraction]) -> str:
    """Describe texts with their weights: `a.txt x 1 + b x 2.5`; with none, if all are 1."""
    even = {*weights} <= {1}
    shown = [name if even else f"{name} x {shown_weight(by)}" for name, by in zip(names, weights, strict=False)]
    return " + ".join(shown[:_MOST_SHOWN] + ["..."] * (len(shown) > _MOST_SHOWN))


def weigh(
    texts: Sequence[Text], weights: Sequence[Any], mixture: Mixture | None, names: Sequence[str]
) -> tuple[Text, ...]:
    """Return texts with these weights, or those that a mixture makes of their bytes, the smallest as 1.

    names: by which the mixture knows them.
    """
    if mixture is not None:
        sizes = dict(zip(names, [text.bytes for text in texts], strict=True))
        factors = list(map(Fraction, mixture.named(names).weights(sizes)))
    else:
        if weights:
            require_weights(weights, texts, "runs")
        factors = [_factor(weight) for weight in weights or [1] * len(texts)]
    try:
        scaled = relative(factors)
    except ValueError as error:
        raise UsageError(f"--weight: expected {error}") from None
    return tuple(replace(text, weight=(by.numerator, by.denominator)) for text, by in zip(texts, scaled, strict=True))


def _factor(weight: Any) -> Fraction:
    try:
        return parse_weight(weight)
    except ValueError as error:
        raise UsageError(f"--weight: expected {error}, not {str(weight)[:80]!r}") from None


def require_weights(weights: Sized, inputs: Sized, what: str = "inputs") -> None:
    """Raise `UsageError` if there is not one weight for each input."""
    if len(weights) != len(inputs):
        counts = f"{format_count(len(weights), 'weights')} for {format_count(len(inputs), what)}"
        raise UsageError(
            f"--weight: {counts}: give one for each, and quote globs: a shell replaces them by the files that match"
        )
