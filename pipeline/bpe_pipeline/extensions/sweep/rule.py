"""Which vocabulary of a sweep to take: a rule that is written down, so that it can be argued with.

Size: with the parameters of the model, the size that minimises the loss that Tao et al. fitted (*Scaling Laws with
Vocabulary: Larger Models Deserve Larger Vocabularies*, NeurIPS 2024, arXiv:2407.13623, approach 3; the constants are
those of `approach3_isoloss` in the authors' repository, github.com/sail-sg/scaling-with-vocab). The loss falls with
the vocabulary's n_v parameters, which are rows of the hidden size, as A / n_v^a, and rises as B / D^b, since with the
same compute F a model of n + n_v parameters reads only D = F / (6 (n + n_v)) tokens. F is 6 x parameters x tokens, or
without `tokens` what they found to be optimal, (n / exp(-2.484651))^2. The fit is of models of 33 million to 3 billion
parameters; beyond, it is an extrapolation. Without parameters: the smallest size from which on no doubling saves 5 % of
the tokens. Vocabularies whose last merge occurred fewer than 20 times in the text are left out: such tokens are names
and typing errors. Weights are relative and multiply no occurrence.

Mixture: the largest geometric mean of bytes per token over the held-out files, or without any over the files that are
named, or without any over the sources. So each counts the same, whatever its size: one per cent gained in one may be
lost in another. Mixtures are equal that differ by less than 0.1 %, or than half of the interval that holds 95 % of the
differences in 200 bootstrap samples of the documents, if that is more.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from bpe_pipeline.base.errors import UsageError, unfit
from bpe_pipeline.base.units import format_count
from bpe_pipeline.extensions.sweep.sweep_worker import Point
from bpe_pipeline.merges.merge_list import LEAST_COUNT, LEAST_SAVING, enough_from
from bpe_pipeline.reports.result import Advice, prices

_A, _A_POWER, _B, _B_POWER = 0.19584238, 0.67073747, 2.12411231, 0.44660634  # in millions, and 10^15 operations
_OPTIMUM = math.exp(-2.48465102)
_EQUAL = 0.001  # of the bytes per token: what differs by less is equal
_MOST_EQUAL = 4  # that are named
_SAMPLES, _OUTSIDE = 200, 5  # of a bootstrap; of them on each side of the interval
KINDS = {"held out": "held-out files", "counted": "files that were counted", "source": "sources"}
_LAYERS_PER_WIDTH = 1 / 128  # of usual models: 32 layers at 4,096; each has 12 x width^2 parameters


@dataclass(frozen=True)
class ForModel:
    """The model that the tokenizer is for. parameters: without the embeddings; tokens: that it is trained on."""

    parameters: float | None = None
    tokens: float | None = None
    hidden_size: float | None = None

    def best_size(self) -> float | None:
        """Return the vocabulary size that the published law predicts; None without parameters.

        >>> 50_000 < ForModel(7e9).best_size() < 80_000 < ForModel(7e9, tokens=15e12).best_size()
        True
        """
        if self.parameters is None:
            return None
        compute = (self.parameters / _OPTIMUM) ** 2
        if self.tokens is not None:
            compute = 6 * self.parameters * self.tokens
        width: float = self.hidden_size or (self.parameters / (12 * _LAYERS_PER_WIDTH)) ** (1 / 3)
        return _best_rows(self.parameters / 1e6, compute / 1e15) * 1e6 / width


def _best_rows(parameters: float, compute: float) -> float:
    """Return the parameters of the vocabulary at which the loss is lowest, all in millions and 10^15 operations."""
    low, high = 1e-3, 1e9
    for _ in range(100):  # halves the logarithmic range: the derivative falls and changes its sign once
        middle = math.sqrt(low * high)
        gain = _A * _A_POWER * middle ** -(_A_POWER + 1)
        cost = _B * _B_POWER * (6 / compute) ** _B_POWER * (parameters + middle) ** (_B_POWER - 1)
        low, high = (middle, high) if gain > cost else (low, middle)
    return low


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


_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


def for_model(**named: float | str | None) -> ForModel:
    """Read numbers such as `7B` and `2.5T`; UsageError for anything else, and for tokens or a width without parameters.

    >>> for_model(parameters="7B", tokens=None).parameters
    7000000000.0
    """
    read: dict[str, float] = {}
    for name, value in named.items():
        if value is not None:
            text = f"{value:f}" if isinstance(value, int | float) else str(value)
            found = re.fullmatch(r"([0-9][0-9_,]*(?:\.[0-9]+)?)([kmbt]?)", text.strip().lower())
            read[name] = float(re.sub("[_,]", "", found[1])) * _UNITS[found[2]] if found else 0.0
            if read[name] <= 0:
                raise unfit(f"--{name.replace('_', '-')}", "a number such as 7B or 2.5T", value)
    if read and "parameters" not in read:
        raise UsageError(f"--{next(iter(read)).replace('_', '-')} is of a model: give --parameters, too")
    return ForModel(**read)


def kind_of(point: Point) -> str:
    """Return which of its texts a point is judged by."""
    return next((kind for kind in KINDS if any(text.kind == kind for text in point.measured)), "source")


def rate(point: Point) -> float:
    """Return the geometric mean of bytes per token over the texts that a point is judged by."""
    kind = kind_of(point)
    logarithms = [
        math.log(text.bytes_per_token) for text in point.measured if text.kind == kind and text.bytes_per_token
    ]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else 0.0


def recommend(points: Sequence[Point], model: ForModel, labels: Mapping[str, str] | None = None) -> Recommendation:
    """Choose one of the points by the rule of this module. labels: of the mixtures, in the advice."""
    frequent = [point for point in points if point.last_count >= LEAST_COUNT]
    sizes = sorted({point.vocab_size for point in points})
    usable = sorted({point.vocab_size for point in frequent}) or sizes[:1]
    size, of_size = _size(points, usable, model)
    possible = [point for point in frequent if point.vocab_size == size] or [
        point for point in points if point.vocab_size == size
    ]
    best, *others = sorted(possible, key=lambda point: (-rate(point), sorted(text.tokens for text in point.measured)))
    advice = [of_size, _mixture(best, others, labels or {})]
    most = {tried: max(point.last_count for point in points if point.vocab_size == tried) for tried in sizes}
    if left := [tried for tried in sizes if tried not in usable]:
        listed = ", ".join(f"{tried:,} ({most[tried]:,})" for tried in left)
        because = f"their last merge occurred fewer than {LEAST_COUNT} times in every mixture: {listed}"
        advice.append(Advice("excluded sizes", "none of them", because, evidence={"last_counts": most}))
    if rare := [point for point in points if point.vocab_size == size and point not in possible]:
        listed = ", ".join(
            f"{(labels or {}).get(point.mixture, point.mixture)} ({point.last_count:,})" for point in rare
        )
        because = f"their last merge occurred fewer than {LEAST_COUNT} times at this size: {listed}"
        evidence = {"last_counts": {point.mixture: point.last_count for point in rare}}
        advice.append(Advice("excluded mixtures", "none of them", because, evidence=evidence))
    if best.last_count < LEAST_COUNT:
        because = f"too little text: its last merge occurred {format_count(best.last_count, 'times')}"
        unless = f"{LEAST_COUNT} would be enough"
        advice.append(Advice("text", "more text", because, unless, evidence={"last_count": best.last_count}))
    return Recommendation(best.mixture, size, rate(best), tuple(advice))


def _size(points: Sequence[Point], usable: Sequence[int], model: ForModel) -> tuple[int, Advice]:
    """Return the size to take, and why."""
    tokens = {tried: _tokens_per_byte(points, tried) for tried in usable}
    savings = [_saving(tokens, smaller, larger) for smaller, larger in pairwise(usable)]
    by_doubling = dict(zip(usable[1:], savings, strict=True))
    evidence = {"tokens_per_byte": tokens, "saved_by_doubling": by_doubling, "limit": LEAST_SAVING}
    if (best := model.best_size()) is not None:
        size = min(usable, key=lambda tried: abs(math.log(tried / best)))
        trained = "" if model.tokens is None else f" trained on {model.tokens:.3g} tokens"
        because = f"{best:,.0f} is the size predicted for {model.parameters:.3g} parameters{trained} (Tao et al. 2024)"
        because += f"; {size:,} is the nearest of the sizes that were tried"
        unless = _other_prediction(usable, size, best)
        evidence |= {"predicted": best}
    elif (first := enough_from(savings, LEAST_SAVING)) is not None:
        size = usable[first]
        because = f"doubling {size:,} saves {savings[first]:.1%} of the tokens, less than {LEAST_SAVING:.0%}"
        larger = usable[max(at for at, saving in enumerate(savings) if saving == max(savings[first:])) + 1]
        unless = f"with a limit of {max(savings[first:]):.1%} it would be {larger:,}"
        if first:
            unless += f", above {savings[first - 1]:.1%} {usable[first - 1]:,}"
    else:
        size, unless = usable[-1], ""
        because = f"{size:,} is the only size to choose from"
        if savings:
            because = f"the last doubling, to {size:,}, saves {savings[-1]:.1%} of the tokens"
            unless = f"limit {LEAST_SAVING:.0%}: smaller only above {savings[-1]:.1%}"
    compared = prices(tokens, size) if tokens[size] else ""
    return size, Advice("size", f"{size:,}", "; ".join(filter(None, (because, compared))), unless, evidence=evidence)


def _other_prediction(usable: Sequence[int], size: int, best: float) -> str:
    """Say which prediction would take the neighbour that is nearest to the one that was made."""
    limits = {tried: math.sqrt(tried * size) for tried in usable if tried != size}
    if not limits:
        return ""
    other = min(limits, key=lambda tried: abs(math.log(limits[tried] / best)))
    return f"a prediction {'above' if other > size else 'below'} {limits[other]:,.0f} would take {other:,}"


def _tokens_per_byte(points: Sequence[Point], size: int) -> float:
    """Return the geometric mean over the mixtures."""
    logarithms = [math.log(rate(point)) for point in points if point.vocab_size == size and rate(point)]
    return math.exp(-math.fsum(logarithms) / len(logarithms)) if logarithms else 0.0


def _saving(tokens: Mapping[int, float], size: int, larger: int) -> float:
    """Return the share of tokens that one doubling saves between two sizes."""
    if not tokens[size]:
        return 0.0
    return 1 - math.exp(math.log(tokens[larger] / tokens[size]) / math.log2(larger / size))


def _mixture(best: Point, others: Sequence[Point], labels: Mapping[str, str]) -> Advice:
    """Say why this mixture is the best one of its size, and which ones are as good."""
    name, most = labels.get(best.mixture, best.mixture), rate(best)
    less = {point.mixture: 1 - rate(point) / (most or 1) for point in others}
    intervals = {point.mixture: _interval(best, point) for point in others}
    margins = {one: max(_EQUAL, (between[1] - between[0]) / 2) for one, between in intervals.items()}
    equal = [mixture for mixture, share in less.items() if share <= margins[mixture]]
    because = f"{name} has the most bytes per token there: {most:.3f}, the geometric mean of the {KINDS[kind_of(best)]}"
    if others and rate(others[0]):
        first = others[0].mixture
        because += f"; {labels.get(first, first)} has {less[first]:.2%} less"
        low, high = intervals[first]
        because += f" (95% interval {low:.2%} to {high:.2%})" if low < high else ""
    if equal:
        listed = " | ".join(labels.get(mixture, mixture) for mixture in (best.mixture, *equal[: _MOST_EQUAL - 1]))
        listed += f" | {len(equal) - _MOST_EQUAL + 1} more" if len(equal) >= _MOST_EQUAL else ""
        because += f"; equal within {max(margins[mixture] for mixture in equal):.1%}, so any of these: {listed}"
    unless = ""
    if others and not equal:
        unless = f"less than {margins[others[0].mixture]:.1%} would be equal"
    evidence = {"bytes_per_token": most, "less": less, "interval": intervals, "equal_within": margins}
    return Advice("mixture", best.mixture, because, unless, tuple(equal), evidence)


def _interval(point: Point, other: Point) -> tuple[float, float]:
    """Return the bootstrap interval of how much less bytes per token another point has; (0, 0) if there is none."""
    theirs = {text.name: text.groups for text in other.measured if text.kind == "held out"}
    held_out = [text for text in point.measured if text.kind == "held out" and text.groups]
    pairs = [(one.groups, theirs[one.name]) for one in held_out if len(theirs[one.name]) == len(one.groups)]
    if not pairs:
        return 0.0, 0.0
    random, differences = Random(0), list[float]()  # noqa: S311 - a sample, not a secret
    for _ in range(_SAMPLES):
        total = 0.0
        for groups, of_other in sorted(pairs):  # in whatever order the files were named
            drawn = random.choices(range(len(groups)), k=len(groups))
            total += math.log(sum(groups[at] for at in drawn) / sum(of_other[at] for at in drawn))
        differences.append(1 - math.exp(total / len(pairs)))
    differences.sort()
    return differences[_OUTSIDE], differences[-1 - _OUTSIDE]
