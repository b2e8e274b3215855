"""Which rows share a packed row: greedy knapsack over lengths, as LLaMA-Factory has it, for any number of rows.

Only lengths are needed, so a set is packed as one batch before any of its rows is written.
"""

from array import array
from collections.abc import Sequence


def pack_rows(lengths: Sequence[int], capacity: int) -> "tuple[array[int], array[int]]":
    """Return the rows of all bags, and where each bag ends among them.

    A bag takes the longest row that fits again and again, of equally long ones the last, until none fits. Rows that
    are longer than a bag are left out.

    >>> rows, ends = pack_rows([7, 3, 4, 2, 5], 9)
    >>> list(rows), list(ends)
    ([0, 3, 4, 2, 1], [2, 4, 5])
    """
    before, head = _chains(lengths, capacity)
    nearest = array("q", range(capacity + 1))  # of each length: a length not above it that may have rows; 0: none

    def longest(length: int) -> int:
        """Return the longest length up to this one that has rows, or 0; chains of empty lengths are shortened."""
        found = length
        while found and head[found] < 0:
            found = nearest[found] if nearest[found] < found else found - 1
        while length > found:
            length, nearest[length] = (nearest[length] if nearest[length] < length else length - 1), found
        return found

    rows, ends = array("Q"), array("Q")
    while longest(capacity):
        left = capacity
        while length := longest(left):
            row = head[length]
            head[length] = before[row]
            rows.append(row)
            left -= length
        ends.append(len(rows))
    return rows, ends


def _chains(lengths: Sequence[int], capacity: int) -> "tuple[array[int], array[int]]":
    """Return for each row the one before it of the same length, and the last row of each length; -1: none."""
    before, head = array("q"), array("q", [-1]) * (capacity + 1)
    for row, length in enumerate(lengths):
        fits = 0 < length <= capacity
        before.append(head[length] if fits else -1)
        if fits:
            head[length] = row
    return before, head
