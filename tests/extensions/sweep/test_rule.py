"""The rule that chooses a size and a mixture from the points of a sweep, and its advice."""

from dataclasses import replace
from pathlib import Path

import pytest

from bpe_pipeline.extensions.sweep.result import Swept
from bpe_pipeline.extensions.sweep.rule import rate, recommend
from bpe_pipeline.extensions.sweep.sweep_worker import Measured, Point
from bpe_pipeline.reports.figure import heat_map
from bpe_pipeline.reports.parts import Table


def _point(mixture: str, size: int, rates: tuple[float, ...], rare_merges: float = 0.01) -> Point:
    measured = tuple(Measured("source", str(at), round(one * 10**6), 10**6) for at, one in enumerate(rates))
    return Point(mixture, size, size, rare_merges, measured)


POINTS = [
    _point("a", 8000, (3.0, 3.0)),
    _point("b", 8000, (4.0, 2.0)),
    _point("a", 16000, (3.3, 3.3)),
    _point("b", 16000, (4.4, 2.2)),
    _point("a", 32000, (3.4, 3.4)),
    _point("b", 32000, (4.5, 2.2)),
]


def test_the_size_is_the_smallest_from_which_no_doubling_pays_and_the_mixture_the_best_of_it() -> None:
    chosen = recommend(POINTS)
    assert (chosen.mixture, chosen.vocab_size) == ("a", 16000)  # to 32,000 it is less than 5 %
    assert chosen.rate == pytest.approx(3.3)


def test_a_later_doubling_that_pays_makes_the_size_larger() -> None:
    larger = [_point("a", 64000, (3.7, 3.7)), _point("b", 64000, (5.0, 2.4)), _point("a", 128000, (3.7, 3.7))]
    assert recommend([*POINTS, *larger]).vocab_size == 64000  # doubling 16,000 does not pay


def test_sizes_with_too_many_rare_merges_in_every_mixture_are_left_out() -> None:
    rare = [replace(point, rare_merges=0.2) if point.vocab_size > 8000 else point for point in POINTS]
    chosen = recommend(rare)
    assert chosen.vocab_size == 8000
    assert str(chosen.advice[0]) == "8,000 or more"


def test_mixtures_with_too_many_rare_merges_are_left_out() -> None:
    chosen = recommend(
        [
            _point("a", 400, (2.0,)),
            _point("b", 400, (3.0,), rare_merges=0.051),
            _point("c", 400, (1.0,), rare_merges=0.05),
        ]
    )
    assert chosen.mixture == "a"


def test_too_little_text_is_said() -> None:
    assert "too little text" in recommend([_point("a", 400, (2.0,), rare_merges=0.5)]).advice[-1].because


def test_a_point_is_judged_by_held_out_text_if_there_is_any() -> None:
    measured = (*POINTS[0].measured, Measured("held out", "x", 50, 10))
    assert rate(replace(POINTS[0], measured=measured)) == pytest.approx(5)


GROWING = [_point("a", size, (bytes_per_token,)) for size, bytes_per_token in ((8000, 3.0), (16000, 3.3), (32000, 3.4))]


def test_advice_has_its_weight_and_what_would_change_it() -> None:
    of_size = recommend(GROWING).advice[0]
    assert str(of_size) == (
        "16,000 is enough: doubling it saves 2.9% of the tokens, less than 5%; 8,000 costs 10.0% more tokens, "
        "32,000 2.9% fewer; with a limit of 2.9% it would be 32,000"
    )
    assert of_size.evidence["saved_by_doubling"] == pytest.approx({16000: 1 - 3 / 3.3, 32000: 1 - 3.3 / 3.4})


def test_mixtures_that_hardly_differ_are_equal() -> None:
    close = recommend([_point("a", 400, (2.0,)), _point("b", 400, (1.9985,)), _point("c", 400, (1.9,))])
    assert close.advice[1].equal == ("b",)
    assert "equal within 0.1%, so any of these: a | b" in str(close.advice[1])


def test_what_has_too_little_text_stands_back() -> None:
    points = [
        _point(name, size, one) for name, one in {"a": (4.0, 2.0), "b": (3.0, 3.0)}.items() for size in (400, 500)
    ]
    points = [replace(one, rare_merges=0.06 if one.mixture == "a" or one.vocab_size == 500 else 0) for one in points]
    swept = Swept(Path(), tuple(points), recommend(points), Path())
    table, _ = swept.shown()
    assert isinstance(table, Table)
    assert {at for at, mark in table.marks().items() if mark == "excluded"} == {(0, 1), (0, 2), (1, 2)}
    assert [cell[-1] == "†" for row in table.texts() for cell in row[1:]] == [True, True, False, True]
    assert "†: more than 5% of the merges occurred fewer than 20 times" in str(swept)


def test_the_table_is_a_heat_map_on_a_page() -> None:
    [table, _] = Swept(Path(), tuple(POINTS), recommend(POINTS), Path()).shown()
    assert isinstance(table, Table)
    figure = heat_map(table)
    assert [*figure.rows()][1:] == [
        ("a", "8,000", pytest.approx(3)),
        ("a", "16,000", pytest.approx(3.3)),
        ("a", "32,000", pytest.approx(3.4)),
        ("b", "8,000", pytest.approx(8**0.5)),
        ("b", "16,000", pytest.approx(9.68**0.5)),
        ("b", "32,000", pytest.approx(9.9**0.5)),
    ]
    assert [one["text"] for one in figure.spec["data"]["values"]] == [text for row in table.texts() for text in row[1:]]


@pytest.mark.parametrize("by", [0.001, 3, 1000])
def test_the_recommendation_does_not_depend_on_scale_order_or_names(by: float) -> None:
    """Ten times the text, points in another order and other names are the same advice."""
    chosen, other = recommend(POINTS), {"a": "z/a", "b": "b b"}
    scaled = [
        replace(
            point,
            mixture=other[point.mixture],
            measured=tuple(
                replace(text, bytes=round(text.bytes * by), tokens=round(text.tokens * by)) for text in point.measured
            ),
        )
        for point in reversed(POINTS)
    ]
    again = recommend(scaled)
    assert (again.mixture, again.vocab_size) == (other[chosen.mixture], chosen.vocab_size)
    assert again.advice[0].because == chosen.advice[0].because
    assert again.advice[1].because == chosen.advice[1].because.replace("a has", "z/a has").replace("b has", "b b has")
