"""Which vocabulary of a sweep to take: a rule that is written down, so that it can be argued with.

Size: with the parameters of the model, the size that minimises the loss that Tao et al. fitted (*Scaling Laws with
Vocabulary: Larger Models Deserve Larger Vocabularies*, NeurIPS 2024, arXiv:2407.13623, approach 3; the constants are
those of `approach3_isoloss` in the authors' repository, github.com/sail-sg/scaling-with-vocab). The loss falls with
the vocabulary's n_v parameters, which are rows of the hidden size, as A / n_v^a, and rises as B / D^b, since with the
same compute F a model of n + n_v parameters reads only D = F / (6 (n + n_v)) tokens. F is 6 x parameters x tokens, or
without `tokens` what they found to be optimal, (n / exp(-2.484651))^2. The fit is of models of 33 million to 3 billion
parameters; beyond, it is an extrapolation. Without parameters: the smallest size from which on no doubling saves 5 % of
the tokens. Vocabularies whose last pair occurred fewer than 20 times are left out: such tokens are names and typing
errors.

Mixture: the largest geometric mean of bytes per token over the held-out files, or without any over the sources. So each
counts the same, whatever its size: one per cent gained in one may be lost in another.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline.base.errors import UsageError, unfit
from pipeline.base.units import format_count
from pipeline.guests.sweep.sweep_worker import Point
from pipeline.merges.merge_list import LEAST_COUNT, LEAST_SAVING, enough_from

_A, _A_POWER, _B, _B_POWER = 0.19584238, 0.67073747, 2.12411231, 0.44660634  # in millions, and 10^15 operations
_OPTIMUM = math.exp(-2.48465102)
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
    reasons: tuple[str, ...]


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


def rate(point: Point) -> float:
    """Return the geometric mean of bytes per token over held-out files, or without any over sources."""
    kind = "held out" if any(one.kind == "held out" for one in point.measured) else "source"
    logarithms = [math.log(one.bytes_per_token) for one in point.measured if one.kind == kind and one.bytes_per_token]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else 0.0


def recommend(points: Sequence[Point], model: ForModel) -> Recommendation:
    """Choose one of the points by the rule of this module."""
    frequent = [one for one in points if one.last_count >= LEAST_COUNT]
    sizes = sorted({one.vocab_size for one in points})
    usable = sorted({one.vocab_size for one in frequent}) or sizes[:1]
    size, why = _size(points, usable, model)
    if left := [f"{one:,}" for one in sizes if one not in usable]:
        why += f"; {', '.join(left)} excluded: in every mixture the last merge was seen fewer than {LEAST_COUNT} times"
    possible = [one for one in frequent if one.vocab_size == size] or [one for one in points if one.vocab_size == size]
    point, *others = sorted(possible, key=rate, reverse=True)
    best = rate(point)
    kind = "held-out files" if any(one.kind == "held out" for one in point.measured) else "sources"
    reasons = [why, f"{point.mixture} has the most bytes per token there: {best:.3f}, the geometric mean of the {kind}"]
    if others and rate(others[0]):
        reasons[1] += f"; {others[0].mixture} follows with {rate(others[0]):.3f}"
    if rare := [one.mixture for one in points if one.vocab_size == size and one not in possible]:
        reasons.append(f"left out there: {', '.join(rare)}; the last pair occurred fewer than {LEAST_COUNT} times")
    if point.last_count < LEAST_COUNT:
        reasons.append(
            f"too little text: its last pair occurred {format_count(point.last_count, 'times')}, "
            f"fewer than {LEAST_COUNT}"
        )
    return Recommendation(point.mixture, size, best, tuple(reasons))


def _size(points: Sequence[Point], usable: Sequence[int], model: ForModel) -> tuple[int, str]:
    """Return the size to take, and why."""
    if (best := model.best_size()) is not None:
        size = min(usable, key=lambda one: abs(math.log(one / best)))
        tokens = "" if model.tokens is None else f" trained on {model.tokens:.3g} tokens"
        law = f"{best:,.0f} is the size predicted for {model.parameters:.3g} parameters{tokens} (Tao et al. 2024)"
        return size, f"{law}; {size:,} is the nearest of the sizes that were tried"
    savings = [_saving(points, size, larger) for size, larger in pairwise(usable)]
    if (first := enough_from(savings, LEAST_SAVING)) is not None:
        why = f"doubling {usable[first]:,} saves {savings[first]:.1%} of the tokens, less than {LEAST_SAVING:.0%}"
        return usable[first], why
    if len(usable) > 1:
        return usable[-1], f"every doubling up to {usable[-1]:,} saves {LEAST_SAVING:.0%} of the tokens or more"
    return usable[-1], f"{usable[-1]:,} is the only size to choose from"


def _saving(points: Sequence[Point], size: int, larger: int) -> float:
    """Return the share of tokens that one doubling saves between two sizes, in the geometric mean of the mixtures."""
    logarithms = [
        [math.log(rate(one)) for one in points if one.vocab_size == wanted and rate(one)] for wanted in (size, larger)
    ]
    before, after = (math.fsum(one) / max(len(one), 1) for one in logarithms)
    return 1 - math.exp((before - after) / math.log2(larger / size))
