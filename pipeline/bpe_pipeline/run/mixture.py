"""Weights that follow from counted bytes: a temperature evens inputs or runs out, a share fixes what one is to have.

Weights are made once, when all is counted, so another temperature counts nothing again. They are decimal numbers of six
digits, relative to the smallest: the same on every machine, and the same if they are given by hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.units import format_count
from bpe_pipeline.run.values import INFINITE, shown_weight

BOTH = "--temperature and --share make weights from counted bytes, and --weight gives them: leave one of them out"
_PRECISION, _DIGITS = 60, 6  # of the arithmetic, whose `exp` and `ln` are rounded correctly; of a weight
_MOST_SHOWN = 16


@dataclass(frozen=True)
class Mixture:
    """What weights are made of. temperature: a decimal number from 1 on, or inf; shares: fractions by name."""

    temperature: str = "1"
    shares: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        fixed = [f"{name} {shown_share(share)}" for name, share in self.shares.items()]
        return ", ".join([f"temperature {self.temperature}"] * (self.temperature != "1") + fixed)

    def named(self, names: Sequence[str]) -> "Mixture":
        """Return the mixture with the names of these inputs in full; `UsageError` if it does not fit them."""
        if len(names) < 2:
            raise UsageError(
                f"--temperature and --share weigh several inputs or runs against each other, and here is "
                f"{format_count(len(names), 'input')}: name two or more, as directories or quoted globs"
            )
        shares = dict[str, str]()
        for name, share in self.shares.items():
            known = [name] if name in names else [one for one in names if name in (short(one), stem(one))]
            if len(known) != 1:
                listed = ", ".join(map(short, names[:_MOST_SHOWN])) + ", ..." * (len(names) > _MOST_SHOWN)
                what = "is none of the names" if not known else f"is {len(known)} inputs; write it in full:"
                raise UsageError(f"--share: {name!r} {what} {listed if not known else ', '.join(known)}")
            if known[0] in shares:
                raise UsageError(f"--share: {known[0]} is named twice; give it one share")
            shares[known[0]] = share
        total, all_named = sum(map(Fraction, shares.values())), len(shares) == len(names)
        if total > 1 or all_named != (total == 1):
            rest = format_count(len(names) - len(shares), "other input")
            what = f"nothing is left for the {rest}" if total == 1 else "of all inputs, and not 100 %"
            what = "more than 100 %" if total > 1 else what
            raise UsageError(f"--share: the shares are {shown_share(str(total))} together, {what}; change one")
        return Mixture(self.temperature, shares)

    def weights(self, sizes: Mapping[str, int]) -> tuple[str, ...]:
        """Return the weights of texts of these bytes, the smallest as 1; 0 for a text without a byte.

        >>> Mixture("inf").weights({"a": 300, "b": 100})
        ('1', '3')
        """
        if empty := [name for name in self.shares if not sizes[name]]:
            raise UsageError(f"--share: {empty[0]} has no text, and so no share of it: leave it out")
        with localcontext(Context(prec=_PRECISION, rounding=ROUND_HALF_EVEN)):
            found = {name: Decimal(0) for name in sizes}
            for name, size in sizes.items():
                if size and name not in self.shares:
                    found[name] = _evened(self.temperature, size)
            fixed = {name: _decimal(share) for name, share in self.shares.items()}
            others = sum((found[name] * size for name, size in sizes.items()), Decimal(0))
            if fixed and others:
                scale = (1 - sum(fixed.values())) / others
                found = {name: weight * scale for name, weight in found.items()}
            elif fixed and sum(map(Fraction, self.shares.values())) != 1:
                raise UsageError("--share: all other inputs are without text: make the shares 100 % together")
            found |= {name: share / sizes[name] for name, share in fixed.items()}
            least = min((weight for weight in found.values() if weight), default=Decimal(1))
            rounded = [
                Context(prec=_DIGITS, rounding=ROUND_HALF_EVEN).plus(weight / least) for weight in found.values()
            ]
        return tuple(str(Fraction(weight)) for weight in rounded)


def _evened(temperature: str, size: int) -> Decimal:
    """Return size ^ (1 / temperature - 1)."""
    if temperature == "1":
        return Decimal(1)
    return 1 / Decimal(size) if temperature == INFINITE else ((1 / Decimal(temperature) - 1) * Decimal(size).ln()).exp()


def _decimal(fraction: str) -> Decimal:
    exact = Fraction(fraction)
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def short(name: str) -> str:
    """Return the last part of a path, by which an input or a run may be named."""
    return PurePosixPath(name).name or name


def stem(name: str) -> str:
    """Return the last part of a path without its endings: `sw` of `corpus/sw.jsonl.gz`."""
    return short(name).partition(".")[0]


def mixture_of(options: Any) -> Mixture | None:
    """Return the mixture that options ask for, if they do; `UsageError` if they have weights too."""
    mixture = asked_mixture(options.temperature, options.shares)
    if mixture is not None and options.weights:
        raise UsageError(BOTH)
    return mixture


def asked_mixture(temperature: str | None, shares: Sequence[str] | None) -> Mixture | None:
    """Return the mixture of a temperature and shares, if one of them is given."""
    if temperature is None and not shares:
        return None
    return Mixture(temperature or "1", dict(one.rpartition("=")[::2] for one in shares or ()))


def shown_share(share: str) -> str:
    """Return a share in percent."""
    return f"{shown_weight(Fraction(share) * 100)} %"
