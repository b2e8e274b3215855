"""Which vocabulary of a sweep to take: a rule that is written down, so that it can be argued with.

Size: the smallest one from which on no doubling saves 5 % of the tokens. Vocabularies are left out if more
than 5 % of their merges occur fewer than 20 times in the text: such tokens are names and typing errors. Weights are
relative and multiply no occurrence.

Mixture: the largest geometric mean of bytes per token over the held-out files, or without any over the
sources. So each counts the same, whatever its size: one per cent gained in one may be lost in another. Mixtures that
differ by less than 0.1 % are equal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from bpe_pipeline.extensions.sweep.sweep_worker import Point
from bpe_pipeline.merges.merge_list import MOST_RARE
from bpe_pipeline.reports.result import Advice
from bpe_pipeline.reports.verdict import rare_in_words, size_advice

_EQUAL = 0.001  # of the bytes per token: what differs by less is equal
_MOST_EQUAL = 4  # that are named


@dataclass(frozen=True)
class Recommendation:
    """The vocabulary to take, and why. rate: geometric mean of its bytes per token."""

    mixture: str
    vocab_size: int
    rate: float
    advice: tuple[Advice, ...]


def is_rare(point: Point) -> bool:
    """Whether too many of its merges are rare."""
    return point.rare_merges > MOST_RARE


def rate(point: Point) -> float:
    """Return the geometric mean of bytes per token over the held-out files, or without any over the sources."""
    held_out = [text for text in point.measured if text.kind == "held out"]
    return _mean(text.bytes_per_token for text in held_out or point.measured)


def _mean(values: Iterable[float | None]) -> float:
    """Return the geometric mean of those above 0; 0 without any."""
    known = list(filter(None, values))
    return geometric_mean(known) if known else 0.0


def recommend(points: Sequence[Point]) -> Recommendation:
    """Choose one of the points by the rule of this module."""
    frequent = [point for point in points if not is_rare(point)]
    usable = sorted({point.vocab_size for point in frequent}) or [min(point.vocab_size for point in points)]
    rates = {size: _mean(rate(point) for point in points if point.vocab_size == size) for size in usable}
    size, of_size = size_advice({size: 1 / by if by else 0.0 for size, by in rates.items()}, usable[-1])
    possible = [point for point in frequent or points if point.vocab_size == size]
    best, *others = sorted(possible, key=lambda point: (-rate(point), sorted(text.tokens for text in point.measured)))
    advice = [of_size, _mixture(best, others)]
    if is_rare(best):
        because = f"too little text: {rare_in_words(best.rare_merges)}"
        unless = f"{MOST_RARE:.0%} would be few enough"
        advice.append(Advice("text", "more text", because, unless, evidence={"rare_merges": best.rare_merges}))
    return Recommendation(best.mixture, size, rate(best), tuple(advice))


def _mixture(best: Point, others: Sequence[Point]) -> Advice:
    """Say why this mixture is the best one of its size, and which ones are as good. others: the next best one first."""
    most = rate(best)
    less = {point.mixture: 1 - rate(point) / (most or 1) for point in others}
    equal = tuple(name for name, share in less.items() if share <= _EQUAL)
    what = "held-out files" if any(text.kind == "held out" for text in best.measured) else "sources"
    because = [f"{best.mixture} has the most bytes per token there: {most:.3f}, the geometric mean of the {what}"]
    because += [f"{name} has {share:.2%} less" for name, share in less.items()][:1]
    if equal:
        named = " | ".join((best.mixture, *equal)[:_MOST_EQUAL])
        because.append(f"equal within {_EQUAL:.1%}, so any of these: {named}")
    unless = f"less than {_EQUAL:.1%} would be equal" if others and not equal else ""
    evidence = {"bytes_per_token": most, "less": less}
    return Advice("mixture", best.mixture, "; ".join(because), unless, equal, evidence)
