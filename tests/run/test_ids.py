"""Special tokens that are refused, and the number of merges that a vocabulary size leaves."""

import pytest

from pipeline.base.errors import UsageError
from pipeline.run.ids import check_special_tokens, merge_budget, with_pad_token


@pytest.mark.parametrize(
    ("special_tokens", "message"),
    [(["<|a|>", ""], "empty"), (["<|a|>", "<|a|>"], "twice"), (["\ud800"], "surrogate"), (["a"], "a single byte")],
)
def test_impossible_special_tokens(special_tokens: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_special_tokens(special_tokens)


def test_pad_token_counts_in_the_vocabulary() -> None:
    assert with_pad_token(["<|a|>"], None) == ["<|a|>"]
    assert with_pad_token(["<|a|>"], "<|pad|>") == ["<|a|>", "<|pad|>"]
    assert with_pad_token(["<|pad|>", "<|a|>"], "<|pad|>") == ["<|pad|>", "<|a|>"]
    assert merge_budget(1000, with_pad_token(["<|a|>"], "<|pad|>")) == 742


def test_vocabulary_too_small_or_too_large() -> None:
    assert merge_budget(257, ["<|a|>"]) == 0
    with pytest.raises(UsageError, match="at least 257"):
        merge_budget(256, ["<|a|>"])
    with pytest.raises(UsageError, match="too large"):
        merge_budget(1 << 40, [])
