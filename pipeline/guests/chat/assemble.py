"""Which rows each shard has: their order, what is packed together, and where shards are cut.

Only the lengths of rows are known here, so a set is packed as one batch before any of its rows is written; with
`--compatible` as batches of 1,000 rows, as LLaMA-Factory does.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BATCH_ROWS = 1000


@dataclass(frozen=True)
class Assembly:
    """The rows of a split in the order of its shards, by number, and where each packed row ends; None: not packed."""

    rows: "array[int]"
    ends: "array[int] | None" = None

    def __len__(self) -> int:
        return len(self.rows if self.ends is None else self.ends)


def assemble(order: "array[int]", lengths: Sequence[int], capacity: int | None, *, compatible: bool) -> Assembly:
    """Return what the rows in an order become. capacity: ids in a packed row; None: each is a row of its own."""
    if capacity is None:
        return Assembly(array("Q", (row for row in order if lengths[row])))
    rows, ends = array("Q"), array("Q")
    step = _BATCH_ROWS if compatible else max(len(order), 1)
    for start in range(0, len(order), step):
        batch = order[start : start + step]
        packed, stops = pack_rows([lengths[row] for row in batch], capacity)
        ends.extend(len(rows) + stop for stop in stops)
        rows.extend(batch[place] for place in packed)
    return Assembly(rows, ends)


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


def cut(assembly: Assembly, lengths: Sequence[int], row_tokens: int | None, shard_tokens: int) -> Iterator[range]:
    """Yield the rows of each shard as ranges of the assembly: at least one row, at most `shard_tokens` ids."""
    if row_tokens is not None:
        step = max(shard_tokens // row_tokens, 1)
        yield from (range(at, min(at + step, len(assembly))) for at in range(0, len(assembly), step))
        return
    start = tokens = 0
    for place, row in enumerate(assembly.rows):
        if place > start and tokens + lengths[row] > shard_tokens:
            yield range(start, place)
            start, tokens = place, 0
        tokens += lengths[row]
    if start < len(assembly):
        yield range(start, len(assembly))
