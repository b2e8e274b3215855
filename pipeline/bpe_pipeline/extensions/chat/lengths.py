"""Lengths of conversations: what `shards.json` stores of rows of chat data."""

import itertools
from collections import Counter
from dataclasses import dataclass

ROWS = "chat"  # what shards store as `made_by`


@dataclass(frozen=True)
class Conversations:
    """The conversations by length, before some of them are held out.

    Dropped ones are left out. cut_off: tokens to which they are cut.
    lengths: tokens before the cut, rounded up to nine binary digits, and how many conversations have that many.
    """

    cut_off: int
    lengths: tuple[tuple[int, int], ...]

    @classmethod
    def counted(cls, cut_off: int, lengths: Counter[int]) -> "Conversations":
        """Return the conversations of these counts."""
        return cls(cut_off, tuple(sorted(lengths.items())))

    def __add__(self, other: "Conversations") -> "Conversations":
        """Add the conversations of another chunk, which are cut to the same length."""
        return self.counted(self.cut_off, Counter(dict(self.lengths)) + Counter(dict(other.lengths)))

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
