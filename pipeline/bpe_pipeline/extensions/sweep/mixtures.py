"""Mixtures of a sweep: runs with their weights, read from the weights that are to be tried."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.run.directory import fingerprint
from bpe_pipeline.run.mixture import Mixture as Evened
from bpe_pipeline.run.values import parse_weight, relative, shown_weight

_MOST_MIXTURES, _LONGEST_NAME = 256, 160


@dataclass(frozen=True)
class Mixture:
    """Runs with their weights, by the names of the runs. made_by: what made the weights."""

    weights: Mapping[str, Fraction]
    made_by: Evened | None = None

    @property
    def name(self) -> str:
        """A name for tables and for the mixture's directory."""
        shown = (f"{name}-x{shown_weight(weight)}" for name, weight in self.weights.items())
        name = "+".join(one.replace("/", "_") for one in shown)
        return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}-{fingerprint(name)}"

    def described(self) -> dict[str, str]:
        """Return the weights as they are shown, with the temperature that made them."""
        made_by = {} if self.made_by is None else {"temperature": self.made_by.temperature}
        return made_by | {name: shown_weight(weight) for name, weight in self.weights.items()}


def mixtures_of(texts: Sequence[str], names: Sequence[str]) -> list[Mixture]:
    """Read `a=1,2 b=0,1`: every choice of one weight for each run, the smallest as 1; runs not named have 1.

    >>> [mixture.name for mixture in mixtures_of(["a=1,2"], ["a", "b"])]
    ['a-x1+b-x1', 'a-x2+b-x1']
    """
    choices = {name: [Fraction(1)] for name in names}
    named: set[str] = set()
    words = re.compile(r"\S.*?=\S*(?=\s|$)|\S.*", re.DOTALL)  # names may have spaces
    for word in itertools.chain.from_iterable(map(words.findall, texts)):
        name, equals, listed = word.rpartition("=")
        if not equals or name not in choices:
            raise UsageError(f"--weight: {word!r} is not NAME=W,W... with one of the names {', '.join(names)}")
        if name in named:
            raise UsageError(f"--weight: {name} is named twice; list all its weights once, with commas")
        named.add(name)
        try:
            choices[name] = [Fraction(0) if one == "0" else parse_weight(one) for one in listed.split(",")]
        except ValueError as error:
            raise UsageError(f"--weight: expected {error}, in {word!r}") from None
    chosen = itertools.islice(itertools.product(*choices.values()), _MOST_MIXTURES + 1)
    try:
        scaled = [relative(one) for one in chosen if any(one)]
    except ValueError as error:
        raise UsageError(f"--weight: expected {error}") from None
    if not scaled or len(scaled) > _MOST_MIXTURES:
        raise UsageError(f"--weight: between 1 and {_MOST_MIXTURES} mixtures, not {len(scaled) or 'only zeros'}")
    return _different(Mixture({name: by for name, by in zip(names, weights, strict=True) if by}) for weights in scaled)


def evened_mixtures(temperatures: Sequence[str], shares: Sequence[str], sizes: Mapping[str, int]) -> list[Mixture]:
    """Return a mixture for each temperature. shares: NAME=SHARE that are fixed; sizes: counted bytes by name."""
    fixed = dict(one.rpartition("=")[::2] for one in shares)
    made_by = [Evened(temperature, fixed).named([*sizes]) for temperature in temperatures or ("1",)]
    weights = [dict(zip(sizes, map(Fraction, one.weights(sizes)), strict=True)) for one in made_by]
    above_0 = [{name: weight for name, weight in one.items() if weight} for one in weights]
    return _different(Mixture(by, one) for by, one in zip(above_0, made_by, strict=True))


def _different(mixtures: Iterable[Mixture]) -> list[Mixture]:
    return list({mixture.name: mixture for mixture in mixtures}.values())
