"""Sizes in words."""

import pytest

from pipeline.base.units import format_apart, format_limit, parse_bytes


def test_different_sizes_look_different():
    assert format_apart(2_187_000_000, 2 << 30) == ("2,187,000,000 B", "2,147,483,648 B")
    assert format_apart(3 << 30, 2 << 30) == ("3.0 GiB", "2.0 GiB")
    assert format_apart(5, 5) == ("5 B", "5 B")


@pytest.mark.parametrize("size", [1, 1 << 20, (1 << 20) + 1, 3.5 * (1 << 30)])
def test_named_limit_is_enough(size):
    assert 0 <= parse_bytes(format_limit(size)) - size < 1 << 20
