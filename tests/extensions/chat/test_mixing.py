"""The order of rows and how they are packed: as LLaMA-Factory recorded them, laws of mixing, a naive packing."""

from array import array
from bisect import bisect
from itertools import pairwise

import pytest
from chat_cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

import bpe_pipeline
from bpe_pipeline.extensions.chat.mixing import check_mixing, order_rows, pack_rows, split_at_random
from bpe_pipeline.extensions.chat.options import ChatOptions


def test_recorded_orders_and_bags_are_equal() -> None:
    for case in cases("mixing"):
        if "val_size" in case:
            training, validation = split_at_random(
                array("Q", range(12)), ChatOptions(val_size=case["val_size"], seed=case["seed"])
            )
            assert [list(training), list(validation)] == [case["train"], case["validation"]]
            continue
        asked = {"mix_strategy": case["strategy"], "seed": case["seed"], "interleave_probs": tuple(case["probs"] or ())}
        assert [f"{'ab'[row > 7]}{row % 8}" for row in order_rows([8, 4], ChatOptions(**asked))] == case["order"]
    for case in cases("knapsack"):
        lengths = case["lengths"]
        assert [[lengths[row] for row in bag] for bag in _bags(lengths, case["capacity"])] == case["bins"]


@settings(deadline=None)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=4), st.booleans(), st.integers(0, 99))
def test_every_row_once_where_all_are_wanted(sizes: list[int], drawn: bool, seed: int) -> None:
    shares = (1 / len(sizes),) * len(sizes) if drawn else ()
    once, over, under = (
        list(order_rows(sizes, ChatOptions(mix_strategy=f"interleave_{name}", interleave_probs=shares, seed=seed)))
        for name in ("once", "over", "under")
    )
    assert sorted(once) == list(range(sum(sizes)))
    assert set(over) == set(once)
    assert len(set(under)) == len(under)


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 60), st.integers(0, 99))
def test_samples_repeat_only_what_is_too_little(size: int, wanted: int, seed: int) -> None:
    rows = order_rows([size], ChatOptions(seed=seed), [wanted])
    assert (len(rows), len(set(rows))) == (wanted, min(size, wanted))


@pytest.mark.parametrize(
    ("shares", "strategy", "message"),
    [
        ((1.0,), "interleave_over", "--interleave-probs has 1 numbers for 2"),
        ((0.9, 0.9), "interleave_over", "the sum 1"),
        ((0.5, 0.5), "concat", "--interleave-probs is for an interleaving"),
    ],
)
def test_probabilities_that_do_not_fit_are_refused(shares: tuple[float, ...], strategy: str, message: str) -> None:
    with pytest.raises(bpe_pipeline.UsageError, match=message):
        check_mixing(ChatOptions(mix_strategy=strategy, interleave_probs=shares), 2)


def test_an_empty_data_set_is_interleaved_with_nothing() -> None:
    with pytest.raises(bpe_pipeline.InputError, match="data set 2 has no rows"):
        order_rows([3, 0], ChatOptions(mix_strategy="interleave_over"))


def test_validation_leaves_rows_for_training() -> None:
    with pytest.raises(bpe_pipeline.UsageError, match="val_size 3 leaves 0 of 3"):
        split_at_random(array("Q", range(3)), ChatOptions(val_size=3))


def _bags(lengths: list[int], capacity: int) -> list[list[int]]:
    rows, ends = pack_rows(lengths, capacity)
    return [list(rows[start:stop]) for start, stop in pairwise([0, *ends])]


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
