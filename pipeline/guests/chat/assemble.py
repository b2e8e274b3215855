"""Which rows each shard has: their order, what is packed together, and where shards are cut.

Only the lengths of rows are known here, so a set is packed as one batch before any of its rows is written; with
`--compatible` as batches of 1,000 rows, as LLaMA-Factory does.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

_BATCH_ROWS = 1000


def assemble(
    order: "array[int]", lengths: Sequence[int], capacity: int | None, *, compatible: bool
) -> "tuple[array[int], array[int]]":
    """Return the rows in an order as bags, and where each ends among them. capacity: of a bag; None: one row each."""
    rows, ends = array("Q"), array("Q")
    if capacity is None:
        rows.extend(row for row in order if lengths[row])
        return rows, array("Q", range(1, len(rows) + 1))
    step = _BATCH_ROWS if compatible else max(len(order), 1)
    for start in range(0, len(order), step):
        batch = order[start : start + step]
        packed, stops = pack_rows([lengths[row] for row in batch], capacity)
        ends.extend(len(rows) + stop for stop in stops)
        rows.extend(batch[place] for place in packed)
    return rows, ends


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


def cut(
    rows: "array[int]", ends: "array[int]", sizes: Iterable[int], shard_tokens: int
) -> "Iterator[tuple[array[int], array[int]]]":
    """Yield the rows of each shard, and where bags of these sizes end among them: as many as `shard_tokens` holds."""
    first = begun = tokens = 0  # the shard's first bag and row, and its ids
    for bag, size in enumerate(sizes):
        if bag > first and tokens + size > shard_tokens:
            stop = ends[bag - 1]
            yield rows[begun:stop], array("Q", (end - begun for end in ends[first:bag]))
            first, begun, tokens = bag, stop, 0
        tokens += size
    yield rows[begun:], array("Q", (end - begun for end in ends[first:]))
