"""Lengths of conversations: what `shards.json` stores of rows of chat data."""

import itertools
from collections import Counter
from dataclasses import dataclass

ROWS = "chat"  # what shards store as `made_by`


@dataclass(frozen=True)
class Conversations:
    """The conversations by length and by the share that is trained on, before they are sampled and held out.

    Dropped ones are left out. cut_off: tokens to which they are cut.
    lengths: tokens before the cut, rounded up to nine binary digits, and how many conversations have that many.
    trained_on: percent of the tokens after the cut, rounded down to a multiple of 5, and how many have that share.
    """

    cut_off: int
    lengths: tuple[tuple[int, int], ...]
    trained_on: tuple[tuple[int, int], ...]

    @classmethod
    def counted(cls, cut_off: int, lengths: Counter[int], trained_on: Counter[int]) -> "Conversations":
        """Return the conversations of these counts."""
        return cls(cut_off, tuple(sorted(lengths.items())), tuple(sorted(trained_on.items())))

    def __add__(self, other: "Conversations") -> "Conversations":
        """Add the conversations of another chunk, which are cut to the same length."""
        pairs = ((self.lengths, other.lengths), (self.trained_on, other.trained_on))
        return self.counted(self.cut_off, *(Counter(dict(mine)) + Counter(dict(theirs)) for mine, theirs in pairs))

    @property
    def count(self) -> int:
        """Number of conversations."""
        return sum(count for _, count in self.lengths)

    def longest(self, share: float) -> int:
        """Return the length that this share of them has at most."""
        ends = itertools.accumulate(count for _, count in self.lengths)
        return next(length for (length, _), end in zip(self.lengths, ends, strict=True) if end >= share * self.count)

    def cut_by(self, cut_off: int) -> tuple[int, float, float]:
        """Return how many of them a cutoff cuts, their share, and the share of the tokens that it leaves out."""
        over = [(length - cut_off, count) for length, count in self.lengths if length > cut_off]
        cut, tokens = sum(count for _, count in over), sum(length * count for length, count in self.lengths)
        return cut, cut / self.count, sum(more * count for more, count in over) / tokens

    def __str__(self) -> str:
        median, most, nearly_all = (f"{self.longest(share):,}" for share in (0.5, 0.9, 0.99))
        range_ = f"{self.count:,} of {self.lengths[0][0]:,} to {self.lengths[-1][0]:,} tokens"
        return f"{range_}: median {median}, 90th percentile {most}, 99th {nearly_all}"
