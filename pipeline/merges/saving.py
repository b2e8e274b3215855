"""The vocabulary size that repays: the smallest from which on no doubling saves a share of the tokens.

Savings need not fall: languages that choose merges in turn, for example, may make a later doubling save more.
"""

from collections.abc import Sequence
from itertools import accumulate

from pipeline.merges.merge_list import MergeList
from pipeline.run.ids import SpecialTokens

LEAST_SAVING, LEAST_COUNT = 0.05, 20  # of tokens, by a doubling; of the last pair, so that it is no typing error


def enough_from(savings: Sequence[float], least: float) -> int | None:
    """Return the position from which on every saving is too small; None if the last one is not.

    >>> enough_from([0.2, 0.04, 0.09, 0.03, 0.01], 0.05)
    3
    """
    worthwhile = (position for position in reversed(range(len(savings))) if savings[position] >= least)
    first = next(worthwhile, -1) + 1
    return first if first < len(savings) else None


def size_that_repays(learned: MergeList, special: SpecialTokens, most: int, saving: float) -> tuple[int, str]:
    """Return the size, at most `most`, and why; by the tokens that the counted corpus has at each size, exactly.

    It is `most` if the list ends before twice a smaller size that would do; doublings that the list does not hold are
    not known.
    """
    tokens = [learned.bytes, *(learned.bytes - joined for joined in accumulate(learned.joined))]
    least, end = most - special.merge_budget(most), len(learned)

    def saved(size: int) -> float:
        return 1 - tokens[min(2 * size - least, end)] / tokens[min(size - least, end)]

    last = most if learned.exhausted else (least + end) // 2  # of which it is known what doubling saves
    if (first := enough_from([saved(size) for size in range(least, last + 1)], saving)) is not None:
        size = least + first
        return size, f"{size:,} tokens: doubling them would save less than {saving:.2%} of the tokens of the corpus"
    known = f"doubling {last:,} saves {saved(last):.2%}" if last >= least else "too few to know what doubling saves"
    return most, f"{most:,} tokens, the most allowed: {known}"
