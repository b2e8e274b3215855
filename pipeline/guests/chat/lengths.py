"""Lengths of conversations: what `shards.json` stores of rows of chat data."""

import itertools
from dataclasses import dataclass

ROWS = "chat"  # what shards store as `made_by`


@dataclass(frozen=True)
class Conversations:
    """How many conversations of chat data have which length, and which share of it is learned: each one that is not
    dropped once, before it is cut to `cut_off` tokens, sampled and held out.

    lengths: tokens, rounded up to nine binary digits, with their conversations; learned: percent of the tokens after
    the cut, rounded down to a multiple of 5, likewise.
    """

    cut_off: int
    lengths: tuple[tuple[int, int], ...]
    learned: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """How many they are."""
        return sum(count for _, count in self.lengths)

    def longest(self, share: float) -> int:
        """Return the length that this share of them has at most."""
        ends = itertools.accumulate(count for _, count in self.lengths)
        return next(length for (length, _), end in zip(self.lengths, ends, strict=True) if end >= share * self.count)

    def cut_by(self, cut_off: int) -> tuple[int, float, float]:
        """Return how many of them a cut-off cuts, their share, and the share of the tokens that it leaves out."""
        over = [(length - cut_off, count) for length, count in self.lengths if length > cut_off]
        cut, tokens = sum(count for _, count in over), sum(length * count for length, count in self.lengths)
        return cut, cut / self.count, sum(more * count for more, count in over) / tokens

    def __str__(self) -> str:
        shares = ", ".join(f"{share:.0%} at most {self.longest(share):,}" for share in (0.5, 0.9, 0.99))
        return f"{self.count:,} of {self.lengths[0][0]:,} to {self.lengths[-1][0]:,} tokens, {shares}"
