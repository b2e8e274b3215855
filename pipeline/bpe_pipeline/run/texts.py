"""What a run adds up, with weights: the INPUTs of its corpus, or the runs and the counts that were combined."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.units import format_count
from bpe_pipeline.run.values import shown_weight

_MOST_SHOWN = 8


@dataclass(frozen=True)
class Text:
    """An INPUT, a run that was combined (by its location), or counts of another program.

    key: of its counts, if they are of neither an INPUT nor this run. weight: a fraction, relative to the others'.
    bytes: of its counts, with its own weights; None: unknown. weighted: whether it has weights of its own.
    """

    name: str
    key: str = ""
    weight: tuple[int, int] = (1, 1)
    bytes: int | None = None
    is_run: bool = False
    weighted: bool = False


@dataclass(frozen=True)
class Source:
    """The origin of counts that were not counted from a corpus listing."""

    kind: str  # COMBINED, "iterator", or that of an extension's chooser
    digest: str  # of what counts depend on besides options and texts; of an iterator, which is read once, random
    description: str  # for people
    chosen_by: dict[str, Any] = field(default_factory=dict)  # the fields of the extension's chooser


@dataclass(frozen=True)
class FirstStage:
    """A run whose first merges are those of superwords, too. key: of its merges."""

    run: str
    key: str


@dataclass(frozen=True)
class MixedText:
    """An input or a run in a mixture: its counted bytes, its weight, and its share of what is learned from."""

    name: str
    bytes: int
    weight: str
    share: float


def mixed_texts(names: Sequence[str], texts: Sequence[Text]) -> tuple[MixedText, ...]:
    """Return texts with their weights as rows of a table; none if the bytes of one are unknown."""
    if any(text.bytes is None for text in texts):
        return ()
    sized = [(name, text.bytes or 0, Fraction(*text.weight)) for name, text in zip(names, texts, strict=True)]
    total = sum(size * by for _, size, by in sized) or 1
    return tuple(MixedText(name, size, shown_weight(by), float(size * by / total)) for name, size, by in sized)


def described(names: Sequence[str], texts: Sequence[Text]) -> str:
    """Describe texts with their weights: `a.txt x 1 + b x 2.5`; with none, if all are 1."""
    weights = [Fraction(*text.weight) for text in texts]
    even = {*weights} <= {1}
    shown = [name if even else f"{name} x {shown_weight(by)}" for name, by in zip(names, weights, strict=True)]
    return " + ".join(shown[:_MOST_SHOWN] + ["..."] * (len(shown) > _MOST_SHOWN))


def require_weights(weights: Sized, inputs: Sized, what: str = "inputs") -> None:
    """Raise `UsageError` if there is not one weight for each input."""
    if len(weights) != len(inputs):
        counts = f"{format_count(len(weights), 'weights')} for {format_count(len(inputs), what)}"
        raise UsageError(
            f"--weight: {counts}: give one for each, and quote globs: a shell replaces them by the files that match"
        )
