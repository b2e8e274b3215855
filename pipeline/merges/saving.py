"""The vocabulary size that repays: the smallest whose doubling saves less than a share of the tokens."""

from itertools import accumulate

from pipeline.merges.merge_list import MergeList
from pipeline.run.ids import SpecialTokens


def size_that_repays(learned: MergeList, special: SpecialTokens, most: int, saving: float) -> tuple[int, str]:
    """Return the size, at most `most`, and why; by the tokens that the counted corpus has at each size, exactly.

    It is `most` if the list ends before twice a smaller size that would do.
    """
    tokens = [learned.bytes, *(learned.bytes - joined for joined in accumulate(learned.joined))]
    least, end = most - special.merge_budget(most), len(learned)

    def saved(size: int) -> float:
        return 1 - tokens[min(2 * size - least, end)] / tokens[min(size - least, end)]

    last = most if learned.exhausted else (least + end) // 2  # of which it is known what doubling saves
    for size in range(least, last + 1):
        if saved(size) < saving:
            return size, f"{size:,} tokens: doubling them would save less than {saving:.2%} of the tokens of the corpus"
    known = f"doubling {last:,} saves {saved(last):.2%}" if last >= least else "too few to know what doubling saves"
    return most, f"{most:,} tokens, the most allowed: {known}"
