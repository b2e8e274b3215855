"""Packing: the recorded bags of LLaMA-Factory, and the definition written naively."""

from bisect import bisect

from chat_cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.guests.chat.pack import pack_rows


def _bags(lengths: list[int], capacity: int) -> list[list[int]]:
    rows, ends = pack_rows(lengths, capacity)
    return [list(rows[start:stop]) for start, stop in zip([0, *ends], ends, strict=False)]


def test_recorded_bags_are_equal() -> None:
    for case in cases("knapsack"):
        bags = _bags(case["lengths"], case["capacity"])
        assert [[case["lengths"][row] for row in bag] for bag in bags] == case["bins"]


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), max_size=60), st.integers(1, 40))
def test_bags_are_those_of_the_definition(lengths: list[int], capacity: int) -> None:
    left = sorted((length, row) for row, length in enumerate(lengths) if length <= capacity)
    expected = []
    while left:
        bag, room = [], capacity
        while at := bisect(left, (room, len(lengths))):
            length, row = left.pop(at - 1)
            bag.append(row)
            room -= length
        expected.append(bag)
    assert _bags(lengths, capacity) == expected
