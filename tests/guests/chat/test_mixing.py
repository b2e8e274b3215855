"""The order of rows and how they are packed: as LLaMA-Factory recorded them, laws of mixing, a naive packing."""

from bisect import bisect
from typing import Any

import pytest
from chat_cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.guests.chat.mixing import Mixing, order_rows, pack_rows


def test_recorded_orders_and_bags_are_equal() -> None:
    for case in cases("mixing"):
        if "val_size" in case:
            training, validation = order_rows([12], Mixing(validation=case["val_size"], seed=case["seed"]))
            assert [list(training), list(validation)] == [case["train"], case["validation"]]
            continue
        mixing = Mixing(strategy=case["strategy"], seed=case["seed"], probabilities=tuple(case["probs"] or ()))
        order, _ = order_rows([8, 4], mixing)
        assert [f"a{row}" if row < 8 else f"b{row - 8}" for row in order] == case["order"]
    for case in cases("knapsack"):
        bags = _bags(case["lengths"], case["capacity"])
        assert [[case["lengths"][row] for row in bag] for bag in bags] == case["bins"]


@settings(deadline=None)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=4), st.booleans(), st.integers(0, 99))
def test_every_row_once_where_all_are_wanted(sizes: list[int], drawn: bool, seed: int) -> None:
    probabilities = (1 / len(sizes),) * len(sizes) if drawn else ()
    once, over, under = (
        list(order_rows(sizes, Mixing(strategy=f"interleave_{name}", probabilities=probabilities, seed=seed))[0])
        for name in ("once", "over", "under")
    )
    assert sorted(once) == list(range(sum(sizes)))
    assert set(over) == set(once)
    assert len(set(under)) == len(under)


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 60), st.integers(0, 99))
def test_samples_repeat_only_what_is_too_little(size: int, wanted: int, seed: int) -> None:
    rows, _ = order_rows([size], Mixing(num_samples=(wanted,), seed=seed))
    assert len(rows) == wanted
    assert len(set(rows)) == min(size, wanted)


@pytest.mark.parametrize(("sizes", "asked", "message"), [
    ([1, 1], {"strategy": "interleave_over", "probabilities": (1.0,)}, "--interleave-probs has 1 numbers for 2"),
    ([1, 1], {"strategy": "interleave_over", "probabilities": (0.9, 0.9)}, "the sum 1"),
    ([1, 1], {"probabilities": (0.5, 0.5)}, "--interleave-probs is for an interleaving"),
    ([3], {"validation": 3}, "--val-size 3 leaves 0 of 3"),
    ([3, 0], {"strategy": "interleave_over"}, "data set 2 has no rows"),
])  # fmt: skip
def test_wrong_mixing_is_an_error_that_names_the_option(sizes: list[int], asked: dict[str, Any], message: str) -> None:
    with pytest.raises(pipeline.PipelineError, match=message):
        order_rows(sizes, Mixing(**asked))


def _bags(lengths: list[int], capacity: int) -> list[list[int]]:
    rows, ends = pack_rows(lengths, capacity)
    return [list(rows[start:stop]) for start, stop in zip([0, *ends], ends, strict=False)]


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
