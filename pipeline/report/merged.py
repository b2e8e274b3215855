"""What the merge counts say, exactly and of the whole training corpus, without reading it again.

Each merge joins `joined` pairs, so after the first n merges the pieces of the corpus have `bytes - joined[:n]` tokens:
the bytes per token of every smaller vocabulary are there for the adding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

MARKED = tuple(1000 * 2**power for power in range(3, 9))  # 8,000 to 256,000
_POINTS = 160


@dataclass(frozen=True)
class Size:
    """A vocabulary size on the training corpus. saved: of the tokens that half the size gives, the share that this one
    does without; None where half of it has no merges."""

    vocab_size: int
    tokens: int
    bytes_per_token: float
    saved: float | None


@dataclass(frozen=True)
class Merged:
    """curve: sizes from the bytes alone to all merges, evenly on a logarithmic scale. marked: 8,000 to 256,000, as far
    as the merges go, and the size of the run. ranks: (rank from 1, the pair's count when it was merged)."""

    merges: int
    bytes: int
    curve: tuple[Size, ...]
    marked: tuple[Size, ...]
    ranks: tuple[tuple[int, int], ...]


def facts(counts: Sequence[int], joined: Sequence[int], total_bytes: int, fixed: int, vocab_size: int) -> Merged:
    """The curve of a merge list. fixed: ids that are no merges, the bytes and special tokens."""
    tokens = [total_bytes, *(total_bytes - done for done in accumulate(joined))]

    def at(size: int) -> Size:
        now = tokens[size - fixed]
        half = size // 2 - fixed
        saved = None if half < 0 else 1 - now / tokens[half] if tokens[half] else None
        return Size(size, now, total_bytes / now if now else 0.0, saved)

    largest = fixed + len(joined)
    sizes = sorted({size for size in (*MARKED, vocab_size) if fixed <= size <= largest})
    grid = [round(fixed * (largest / fixed) ** (step / _POINTS)) for step in range(_POINTS + 1)]
    curve = sorted({min(max(size, fixed), largest) for size in grid} | set(sizes))
    return Merged(
        merges=len(joined),
        bytes=total_bytes,
        curve=tuple(map(at, curve)),
        marked=tuple(map(at, sizes)),
        ranks=tuple((rank, counts[rank - 1]) for rank in logarithmic(len(counts))),
    )


def logarithmic(last: int) -> list[int]:
    """Whole numbers from 1 to `last`, about evenly on a logarithmic scale, both ends among them.

    >>> logarithmic(4)
    [1, 2, 3, 4]
    """
    if last < 1:
        return []
    return sorted({min(last, round(last ** (step / _POINTS))) for step in range(_POINTS + 1)})
