"""Which conversations a row holds, and which rows a shard: a greedy knapsack of all conversations, by their lengths."""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence


def bags_of(rows: Sequence[int], lengths: Sequence[int], capacity: int | None) -> "tuple[array[int], array[int]]":
    """Return those of the rows that are not empty as bags, and where each ends among them.

    capacity: most tokens in a bag; None: one row each.
    """
    if capacity is None:
        rows = array("Q", (row for row in rows if lengths[row]))
        return rows, array("Q", range(1, len(rows) + 1))
    places, ends = pack_rows([lengths[row] for row in rows], capacity)
    return array("Q", (rows[place] for place in places)), ends


def pack_rows(lengths: Sequence[int], capacity: int) -> "tuple[array[int], array[int]]":
    """Return the rows of all bags, and where each bag ends among them: LLaMA-Factory's greedy knapsack.

    A bag takes the longest row that fits again and again, of equally long ones the last, until none fits. Rows that
    are longer than a bag are left out.

    >>> rows, ends = pack_rows([7, 3, 4, 2, 5], 9)
    >>> list(rows), list(ends)
    ([0, 3, 4, 2, 1], [2, 4, 5])
    """
    waiting: dict[int, array[int]] = defaultdict(lambda: array("Q"))  # the rows of each length
    for row, length in enumerate(lengths):
        if 0 < length <= capacity:
            waiting[length].append(row)
    left, rows, ends = sorted(waiting), array("Q"), array("Q")
    while left:
        fits = capacity
        while at := bisect_right(left, fits):
            length = left[at - 1]
            rows.append(waiting[length].pop())
            fits -= length
            if not waiting[length]:
                del left[at - 1]
        ends.append(len(rows))
    return rows, ends


def shards_of(
    rows: "array[int]", ends: "array[int]", sizes: Iterable[int], shard_tokens: int
) -> "Iterator[tuple[array[int], array[int]]]":
    """Yield the rows of each shard, and where bags of these sizes end among them: as many as `shard_tokens` holds."""
    first = first_row = tokens = 0  # the shard's first bag and row, and its ids
    for bag, size in enumerate(sizes):
        if bag > first and tokens + size > shard_tokens:
            stop = ends[bag - 1]
            yield rows[first_row:stop], array("Q", (end - first_row for end in ends[first:bag]))
            first, first_row, tokens = bag, stop, 0
        tokens += size
    yield rows[first_row:], array("Q", (end - first_row for end in ends[first:]))
