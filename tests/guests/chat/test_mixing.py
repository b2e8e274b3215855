"""The order of rows: recorded orders of LLaMA-Factory and laws of mixing."""

import pytest
from chat_cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.guests.chat.mixing import Mixing, order_rows

SIZES = st.lists(st.integers(1, 20), min_size=2, max_size=4)


def test_recorded_orders_are_equal() -> None:
    for case in cases("mixing"):
        if "val_size" in case:
            training, validation = order_rows([12], Mixing(validation=case["val_size"], seed=case["seed"]))
            assert [list(training), list(validation)] == [case["train"], case["validation"]]
            continue
        mixing = Mixing(strategy=case["strategy"], seed=case["seed"], probabilities=tuple(case["probs"] or ()))
        order, _ = order_rows([8, 4], mixing)
        assert [f"a{row}" if row < 8 else f"b{row - 8}" for row in order] == case["order"]


@settings(deadline=None)
@given(SIZES, st.booleans(), st.integers(0, 99))
def test_every_row_once_where_all_are_wanted(sizes: list[int], drawn: bool, seed: int) -> None:
    probabilities = (1 / len(sizes),) * len(sizes) if drawn else ()
    once, _ = order_rows(sizes, Mixing(strategy="interleave_once", probabilities=probabilities, seed=seed))
    assert sorted(once) == list(range(sum(sizes)))
    over, _ = order_rows(sizes, Mixing(strategy="interleave_over", probabilities=probabilities, seed=seed))
    assert set(over) == set(once)
    under, _ = order_rows(sizes, Mixing(strategy="interleave_under", probabilities=probabilities, seed=seed))
    assert len(set(under)) == len(under)


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 60), st.integers(0, 99))
def test_samples_repeat_only_what_is_too_little(size: int, wanted: int, seed: int) -> None:
    rows, _ = order_rows([size], Mixing(num_samples=(wanted,), seed=seed))
    assert len(rows) == wanted
    assert len(set(rows)) == min(size, wanted)


def test_wrong_mixing_is_an_error_that_names_the_option() -> None:
    with pytest.raises(pipeline.PipelineError, match="--interleave-probs has 1 numbers for 2 data sets"):
        order_rows([1, 1], Mixing(strategy="interleave_over", probabilities=(1.0,)))
    with pytest.raises(pipeline.PipelineError, match="the sum 1"):
        order_rows([1, 1], Mixing(strategy="interleave_over", probabilities=(0.9, 0.9)))
    with pytest.raises(pipeline.PipelineError, match="--interleave-probs is for an interleaving"):
        order_rows([1, 1], Mixing(probabilities=(0.5, 0.5)))
    with pytest.raises(pipeline.PipelineError, match="--val-size 3 leaves 0 of 3"):
        order_rows([3], Mixing(validation=3))
    with pytest.raises(pipeline.PipelineError, match="data set 2 has no rows"):
        order_rows([3, 0], Mixing(strategy="interleave_over"))
