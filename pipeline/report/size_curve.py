"""Bytes per token at every vocabulary size, exact on the training corpus and without reading it again.

Each merge joins `joined` pairs, so after n merges the corpus has `bytes - sum(joined[:n])` tokens.
"""

from collections.abc import Sequence
from itertools import accumulate

from pipeline.report.numbers import MARKED_SIZES, MergeNumbers, SizePoint

_STEPS = 160


def merge_numbers(
    counts: Sequence[int], joined: Sequence[int], total_bytes: int, fixed: int, vocab_size: int
) -> MergeNumbers:
    """Return the size curve of a merge list. fixed: ids that are not merges, the bytes and special tokens."""
    tokens = [total_bytes, *(total_bytes - done for done in accumulate(joined))]

    def at(size: int) -> SizePoint:
        now, half = tokens[size - fixed], size // 2 - fixed
        saved = 1 - now / tokens[half] if half >= 0 and tokens[half] else None
        return SizePoint(size, now, total_bytes / now if now else 0.0, saved)

    largest = fixed + len(joined)
    marked = sorted({size for size in (*MARKED_SIZES, vocab_size) if fixed <= size <= largest})
    return MergeNumbers(
        merges=len(joined),
        bytes=total_bytes,
        curve=tuple(map(at, sorted({*logarithmic(fixed, largest), *marked}))),
        marked=tuple(map(at, marked)),
        ranks=tuple((rank, counts[rank - 1]) for rank in logarithmic(1, len(counts))),
    )


def logarithmic(first: int, last: int) -> list[int]:
    """Return whole numbers from `first` to `last`, both included, about evenly on a logarithmic scale.

    >>> logarithmic(1, 4)
    [1, 2, 3, 4]
    """
    if last < first:
        return []
    return sorted({round(first * (last / first) ** (step / _STEPS)) for step in range(_STEPS + 1)})
