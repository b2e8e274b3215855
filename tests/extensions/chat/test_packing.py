"""How rows are cut and packed: as LLaMA-Factory recorded it, and a naive packing."""

from bisect import bisect
from itertools import pairwise

from chat_cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from bpe_pipeline.extensions.chat.encoder import infer_seqlen
from bpe_pipeline.extensions.chat.training_rows import pack_rows


def _bags(lengths: list[int], capacity: int) -> list[list[int]]:
    rows, ends = pack_rows(lengths, capacity)
    return [list(rows[start:stop]) for start, stop in pairwise([0, *ends])]


def test_recorded_bags_are_equal() -> None:
    for case in cases("knapsack"):
        lengths = case["lengths"]
        assert [[lengths[row] for row in bag] for bag in _bags(lengths, case["capacity"])] == case["bins"]


def test_recorded_cuts_are_equal() -> None:
    for source, target, limit, *expected in cases("infer_seqlen"):
        if source or target or limit:  # that divides by zero, and does not occur
            assert [*infer_seqlen(source, target, limit)] == expected


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), max_size=60), st.integers(1, 40))
def test_bags_are_those_of_the_definition(lengths: list[int], capacity: int) -> None:
    left = sorted((length, row) for row, length in enumerate(lengths) if length <= capacity)
    expected = list[list[int]]()
    while left:
        expected.append(bag := [])
        room = capacity
        while at := bisect(left, (room, len(lengths))):
            length, row = left.pop(at - 1)
            bag.append(row)
            room -= length
    assert _bags(lengths, capacity) == expected
