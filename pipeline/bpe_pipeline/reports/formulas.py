"""Formulas of numbers: of counts, of costs, and of how numbers in a text are cut."""

import math
from collections.abc import Iterable, Mapping
from operator import itemgetter


def renyi_efficiency(counts: Iterable[int], order: float) -> float | None:
    """Return the Rényi entropy of a distribution over the logarithm of the number of its members; None if it is empty.

    >>> renyi_efficiency([3, 3, 3, 3], 2.5), renyi_efficiency([5], 1)
    (1.0, 0.0)
    """
    listed = [count for count in counts if count]
    if len(listed) < 2:
        return 0.0 if listed else None
    total = sum(listed)
    if order == 1:
        entropy = -math.fsum(count / total * math.log(count / total) for count in listed)
    else:
        entropy = math.log(math.fsum((count / total) ** order for count in listed)) / (1 - order)
    return entropy / math.log(len(listed)) + 0.0


def digit_f1(cuts: Iterable[int], usual: Iterable[int]) -> float:
    """Compare the cuts in a number with the usual ones in numbers of as many digits.

    >>> digit_f1([1, 2], [1, 2]), digit_f1([], []), digit_f1([3], []), digit_f1([1, 4], [1, 3])
    (1.0, 1.0, 0.0, 0.5)
    """
    ends, usual_ends = set(cuts), set(usual)
    return 2 * len(ends & usual_ends) / (len(ends) + len(usual_ends)) if ends or usual_ends else 1.0


def mean_digit_f1(numbers: Mapping[tuple[int, tuple[int, ...]], int]) -> float | None:
    """Return the mean of `digit_f1` over numbers of (digits, cuts); None without any.

    >>> mean_digit_f1({(4, (1, 2, 3)): 5, (3, (1, 2)): 5}), mean_digit_f1({(4, ()): 3, (4, (2,)): 1})
    (1.0, 0.75)
    """
    usual: dict[int, tuple[int, tuple[int, ...]]] = {}  # of each number of digits: how often, and the cuts
    for (digits, cuts), times in sorted(numbers.items()):
        usual[digits] = max(usual.get(digits, (0, ())), (times, cuts), key=itemgetter(0))
    total = sum(numbers.values())
    scores = (times * digit_f1(cuts, usual[digits][1]) for (digits, cuts), times in numbers.items())
    return math.fsum(scores) / total if total else None


def gini(amounts: Iterable[float]) -> float | None:
    """Return the Gini coefficient: 0 if all amounts are equal, near 1 if one has everything; None without any.

    >>> gini([1, 1, 1]), gini([0, 0, 0, 4])
    (0.0, 0.75)
    """
    listed = sorted(amounts)
    if not (total := sum(listed)):
        return None
    return sum((2 * rank - len(listed) - 1) * value for rank, value in enumerate(listed, 1)) / (len(listed) * total)
