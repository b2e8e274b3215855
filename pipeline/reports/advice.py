"""Advice with its weight: what to take, what it rests on, and the number that would change it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EQUAL = 0.001  # of the bytes per token: what differs by less is equal


@dataclass(frozen=True)
class Advice:
    """A recommendation. because: what it rests on, in one line; unless: the number that would change it; equal: what
    else would be as good; evidence: the numbers. outcome: of what was examined: "fine", "wrong" (take is the remedy),
    "advice" (it works, but may surprise) or "not checked"."""

    about: str
    take: str
    because: str
    unless: str = ""
    equal: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    outcome: str = "advice"

    def __str__(self) -> str:
        return "; ".join(part for part in (self.because, self.unless) if part)


def prices(tokens: Mapping[int, float], size: int) -> str:
    """Compare a size with its neighbours. tokens: of the same text, by vocabulary size.

    >>> prices({8000: 118.0, 16000: 105.0, 32000: 100.0}, 16000)
    '8,000 costs 12.4% more tokens, 32,000 4.8% fewer'
    """
    sizes = sorted(tokens)
    at = sizes.index(size)
    smaller, larger = sizes[max(at - 1, 0) : at], sizes[at + 1 : at + 2]
    more = [f"{one:,} costs {tokens[one] / tokens[size] - 1:.1%} more tokens" for one in smaller]
    fewer = [f"{one:,} {'' if more else 'has '}{1 - tokens[one] / tokens[size]:.1%} fewer" for one in larger]
    return ", ".join([*more, *fewer]) + ("" if more or not fewer else " tokens")
