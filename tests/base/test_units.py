"""Sizes in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe_pipeline.base.units import format_apart, format_limit, format_share, parse_bytes


def test_different_sizes_look_different():
    assert format_apart(2_187_000_000, 2 << 30) == ("2,187,000,000 B", "2,147,483,648 B")
    assert format_apart(3 << 30, 2 << 30) == ("3.0 GiB", "2.0 GiB")
    assert format_apart(5, 5) == ("5 B", "5 B")


@given(st.floats(-1, 1), st.sampled_from([".0%", ".1%", "+.1%", "+.2%"]))
def test_only_a_share_of_nothing_looks_like_none(share, form):
    shown = format_share(share, form)
    assert (float(shown.removesuffix("%")) == 0) == (share == 0)
    assert not share or abs(float(shown.removesuffix("%")) / 100 - share) <= max(0.005, abs(share) / 2)
    assert (form[0] == "+" and share > 0) == shown.startswith("+") or not share


@pytest.mark.parametrize("size", [1, 1 << 20, (1 << 20) + 1, 3.5 * (1 << 30)])
def test_named_limit_is_enough(size):
    assert 0 <= parse_bytes(format_limit(size)) - size < 1 << 20
