"""Which vocabulary of a sweep to take: a rule that is written down, so that it can be argued with.

Size: the smallest one from which on no doubling saves 5 % of the tokens. Vocabularies are left out if more
than 5 % of their merges occur fewer than 20 times in the text: such tokens are names and typing errors. Weights are
relative and multiply no occurrence.

Mixture: the largest geometric mean of bytes per token over the held-out files, or without any over the files that are
named, or without any over the sources. So each counts the same, whatever its size: one per cent gained in one may be
lost in another. Mixtures that differ by less than 0.1 % are equal.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from bpe_pipeline.extensions.sweep.sweep_worker import Point
from bpe_pipeline.merges.merge_list import LEAST_COUNT, LEAST_SAVING, MOST_RARE, enough_from
from bpe_pipeline.reports.result import Advice, prices
from bpe_pipeline.reports.verdict import rare_in_words

KINDS = {"held out": "held-out files", "counted": "files that were counted", "source": "sources"}
_EQUAL = 0.001  # of the bytes per token: what differs by less is equal
_MOST_EQUAL = 4  # that are named


@dataclass(frozen=True)
class Recommendation:
    """The vocabulary to take, and why. rate: geometric mean of its bytes per token."""

    mixture: str
    vocab_size: int
    rate: float
    advice: tuple[Advice, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """What it rests on, a line each."""
        return tuple(map(str, self.advice))


def kind_of(point: Point) -> str:
    """Return which of its texts a point is judged by."""
    return next((kind for kind in KINDS if any(text.kind == kind for text in point.measured)), "source")


def rate(point: Point) -> float:
    """Return the geometric mean of bytes per token over the texts that a point is judged by."""
    kind = kind_of(point)
    return _geometric_mean([text.bytes_per_token or 0 for text in point.measured if text.kind == kind])


def _geometric_mean(values: Sequence[float]) -> float:
    """Return the mean of those above 0; 0 if there are none."""
    logarithms = [math.log(value) for value in values if value]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else 0.0


def recommend(points: Sequence[Point], labels: Mapping[str, str] = MappingProxyType({})) -> Recommendation:
    """Choose one of the points by the rule of this module. labels: of the mixtures, in the advice."""
    frequent = [point for point in points if point.rare_merges <= MOST_RARE]
    sizes = sorted({point.vocab_size for point in points})
    usable = sorted({point.vocab_size for point in frequent}) or sizes[:1]
    size, of_size = _size(points, usable)
    of_this = [point for point in points if point.vocab_size == size]
    possible = [point for point in frequent if point.vocab_size == size] or of_this
    best, *others = sorted(possible, key=lambda point: (-rate(point), sorted(text.tokens for text in point.measured)))
    advice = [of_size, _mixture(best, others, labels)]
    if len(usable) < len(sizes):
        least = {one: min(point.rare_merges for point in points if point.vocab_size == one) for one in sizes}
        shown = {f"{one:,}": least[one] for one in sizes if one not in usable}
        advice.append(_excluded("sizes", "in every mixture", shown, least))
    if rare := {point.mixture: point.rare_merges for point in of_this if point not in possible}:
        shown = {labels.get(name, name): share for name, share in rare.items()}
        advice.append(_excluded("mixtures", "at this size", shown, rare))
    if best.rare_merges > MOST_RARE:
        because = f"too little text: {rare_in_words(best.rare_merges)}"
        unless = f"{MOST_RARE:.0%} would be few enough"
        advice.append(Advice("text", "more text", because, unless, evidence={"rare_merges": best.rare_merges}))
    return Recommendation(best.mixture, size, rate(best), tuple(advice))


def _excluded(what: str, where: str, shown: Mapping[str, float], shares: Mapping[Any, float]) -> Advice:
    """Name the sizes or mixtures of which too many merges are rare."""
    listed = ", ".join(f"{name} ({share:.1%})" for name, share in shown.items())
    because = f"more than {MOST_RARE:.0%} of their merges occurred fewer than {LEAST_COUNT} times {where}: {listed}"
    return Advice(f"excluded {what}", "none of them", because, evidence={"rare_merges": shares})


def _size(points: Sequence[Point], usable: Sequence[int]) -> tuple[int, Advice]:
    """Return the size to take, and why."""
    rates = {size: _geometric_mean([rate(point) for point in points if point.vocab_size == size]) for size in usable}
    tokens = {size: 1 / value if value else 0.0 for size, value in rates.items()}  # per byte
    savings = [_saving(tokens, smaller, larger) for smaller, larger in pairwise(usable)]
    by_doubling = dict(zip(usable[1:], savings, strict=True))
    evidence = {"tokens_per_byte": tokens, "saved_by_doubling": by_doubling, "limit": LEAST_SAVING}
    if (first := enough_from(savings, LEAST_SAVING)) is not None:
        size, most = usable[first], max(savings[first:])
        because = f"doubling {size:,} saves {savings[first]:.1%} of the tokens, less than {LEAST_SAVING:.0%}"
        larger = usable[max(at for at, saving in enumerate(savings) if saving == most) + 1]
        unless = f"with a limit of {most:.1%} it would be {larger:,}"
        unless += f", above {savings[first - 1]:.1%} {usable[first - 1]:,}" if first else ""
    elif savings:
        size = usable[-1]
        because = f"the last doubling, to {size:,}, saves {savings[-1]:.1%} of the tokens"
        unless = f"limit {LEAST_SAVING:.0%}: smaller only above {savings[-1]:.1%}"
    else:
        [size], unless = usable, ""
        because = f"{size:,} is the only size to choose from"
    compared = prices(tokens, size) if tokens[size] else ""
    return size, Advice("size", f"{size:,}", "; ".join(filter(None, (because, compared))), unless, evidence=evidence)


def _saving(tokens: Mapping[int, float], size: int, larger: int) -> float:
    """Return the share of tokens that one doubling saves between two sizes."""
    if not tokens[size]:
        return 0.0
    return 1 - math.exp(math.log(tokens[larger] / tokens[size]) / math.log2(larger / size))


def _mixture(best: Point, others: Sequence[Point], labels: Mapping[str, str]) -> Advice:
    """Say why this mixture is the best one of its size, and which ones are as good."""
    most = rate(best)
    less = {point.mixture: 1 - rate(point) / (most or 1) for point in others}
    equal = [mixture for mixture, share in less.items() if share <= _EQUAL]
    name, *names = (labels.get(mixture, mixture) for mixture in (best.mixture, *less))
    because = f"{name} has the most bytes per token there: {most:.3f}, the geometric mean of the {KINDS[kind_of(best)]}"
    if others and rate(others[0]):
        because += f"; {names[0]} has {less[others[0].mixture]:.2%} less"
    if equal:  # the first ones, as others are sorted
        listed = " | ".join((name, *names[: len(equal)][: _MOST_EQUAL - 1]))
        listed += f" | {len(equal) - _MOST_EQUAL + 1} more" if len(equal) >= _MOST_EQUAL else ""
        because += f"; equal within {_EQUAL:.1%}, so any of these: {listed}"
    unless = f"less than {_EQUAL:.1%} would be equal" if others and not equal else ""
    evidence = {"bytes_per_token": most, "less": less, "equal_within": _EQUAL}
    return Advice("mixture", best.mixture, because, unless, tuple(equal), evidence)
