"""The rule that chooses a size and a mixture from the points of a sweep, and its advice."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.extensions.sweep.page import Swept
from bpe_pipeline.extensions.sweep.rule import ForModel, for_model, rate, recommend
from bpe_pipeline.extensions.sweep.sweep_worker import Measured, Point
from bpe_pipeline.reports.parts import Table


def test_the_predicted_size_is_the_published_one() -> None:
    """The paper's predictions by its third approach; 216k for 70 billion parameters is in its abstract."""
    table = ((3e9, 3200, 37e3), (7e9, 4096, 60e3), (13e9, 5120, 81e3), (30e9, 6048, 142e3), (70e9, 8192, 218e3))
    for parameters, width, published in table:
        found = ForModel(parameters, hidden_size=width).best_size()
        assert found is not None
        assert abs(found / published - 1) < 0.02
    optimum = ForModel(7e9, tokens=7e9 * math.exp(2 * 2.48465102) / 6).best_size()
    assert optimum == pytest.approx(ForModel(7e9).best_size())


def _point(mixture: str, size: int, rates: tuple[float, ...], last_count: int = 100) -> Point:
    measured = tuple(Measured("source", str(at), round(one * 10**6), 10**6) for at, one in enumerate(rates))
    return Point(mixture, size, size, last_count, measured)


POINTS = [
    _point("a", 8000, (3.0, 3.0)),
    _point("b", 8000, (4.0, 2.0)),
    _point("a", 16000, (3.3, 3.3)),
    _point("b", 16000, (4.4, 2.2)),
    _point("a", 32000, (3.4, 3.4)),
    _point("b", 32000, (4.5, 2.2)),
]


def test_the_size_is_the_smallest_from_which_no_doubling_pays_and_the_mixture_the_best_of_it() -> None:
    chosen = recommend(POINTS, ForModel())
    assert (chosen.mixture, chosen.vocab_size) == ("a", 16000)  # to 32,000 it is less than 5 %
    assert chosen.rate == pytest.approx(3.3)


def test_a_later_doubling_that_pays_makes_the_size_larger() -> None:
    larger = [_point("a", 64000, (3.7, 3.7)), _point("b", 64000, (5.0, 2.4)), _point("a", 128000, (3.7, 3.7))]
    assert recommend([*POINTS, *larger], ForModel()).vocab_size == 64000  # doubling 16,000 does not pay


def test_a_large_model_takes_the_largest_size() -> None:
    assert recommend(POINTS, ForModel(70e9)).vocab_size == 32000


def test_sizes_whose_last_merge_is_rare_in_every_mixture_are_left_out() -> None:
    rare = [replace(point, last_count=5) if point.vocab_size > 8000 else point for point in POINTS]
    chosen = recommend(rare, ForModel(70e9))
    assert chosen.vocab_size == 8000
    assert chosen.reasons[2].endswith("in every mixture: 16,000 (5), 32,000 (5)")


def test_mixtures_whose_last_merge_is_rare_are_left_out() -> None:
    chosen = recommend([_point("a", 400, (2.0,)), _point("b", 400, (3.0,), last_count=19)], ForModel())
    assert chosen.mixture == "a"
    assert chosen.reasons[2] == "their last merge occurred fewer than 20 times at this size: b (19)"


def test_too_little_text_is_said() -> None:
    assert "too little text" in recommend([_point("a", 400, (2.0,), last_count=1)], ForModel()).reasons[-1]


def test_a_point_is_judged_by_held_out_text_if_there_is_any() -> None:
    measured = (*POINTS[0].measured, Measured("held out", "x", 50, 10))
    assert rate(replace(POINTS[0], measured=measured)) == pytest.approx(5)


def _of_documents(mixture: str, groups: tuple[int, ...]) -> Point:
    tokens = sum(groups)
    return Point(mixture, 400, 400, 100, (Measured("held out", "x", 4 * 64_000, tokens, groups),))


GROWING = [_point("a", size, (bytes_per_token,)) for size, bytes_per_token in ((8000, 3.0), (16000, 3.3), (32000, 3.4))]


def test_advice_has_its_weight_and_what_would_change_it() -> None:
    of_size = recommend(GROWING, ForModel()).advice[0]
    assert str(of_size) == (
        "doubling 16,000 saves 2.9% of the tokens, less than 5%; 8,000 costs 10.0% more tokens, 32,000 2.9% fewer; "
        "with a limit of 2.9% it would be 32,000, above 9.1% 8,000"
    )
    assert of_size.evidence["saved_by_doubling"] == pytest.approx({16000: 1 - 3 / 3.3, 32000: 1 - 3.3 / 3.4})


def test_advice_of_a_prediction_names_the_one_that_would_change_it() -> None:
    predicted = recommend(GROWING, ForModel(3e9, hidden_size=3200)).advice[0]
    assert predicted.unless == "a prediction below 22,627 would take 16,000"


def test_mixtures_that_hardly_differ_are_equal() -> None:
    close = recommend([_point("a", 400, (2.0,)), _point("b", 400, (1.9985,)), _point("c", 400, (1.9,))], ForModel())
    assert close.advice[1].equal == ("b",)
    assert "equal within 0.1%, so any of these: a | b" in close.reasons[1]


def test_mixtures_are_equal_within_the_interval_over_documents() -> None:
    even, worse = _of_documents("a", (1000,) * 64), _of_documents("b", (1010,) * 64)
    scattered = _of_documents("c", tuple(1010 + (300 if at % 2 else -300) for at in range(64)))
    advice = recommend([even, worse, scattered], ForModel()).advice[1]
    assert advice.equal == ("c",)  # b has as many more tokens, but in every document
    assert advice.evidence["equal_within"]["b"] == pytest.approx(0.001)
    assert 0.04 < advice.evidence["equal_within"]["c"] < 0.11  # 2 x 300 / 1,010 / square root of 64
    low, high = advice.evidence["interval"]["c"]
    assert low < advice.evidence["less"]["c"] < high
    assert advice.evidence["interval"]["b"] == pytest.approx((1 - 1 / 1.01, 1 - 1 / 1.01))
    certain = recommend([even, _of_documents("d", (1100,) * 32 + (1200,) * 32)], ForModel()).advice[1]
    assert re.search(r"d has 13\.04% less \(95% interval 12\.\d\d% to 13\.\d\d%\)", certain.because)


def test_figures_have_the_points_of_the_mixtures() -> None:
    rates = {"a": (4.0, 2.0), "b": (3.0, 3.0), "c": (2.9, 2.9)}
    points = [_point(name, size, one) for name, one in rates.items() for size in (400, 500)]
    chosen, weights = recommend(points, ForModel()), {name: {name: "1"} for name in rates}
    sizes, texts, pareto = Swept(Path(), tuple(points), (), chosen, (), weights).figures()
    assert chosen.mixture == "b"
    assert {line.name: line.points[0][1] for line in sizes.series} == pytest.approx(
        {"a 1, b 0, c 0": 100 * (3 / math.sqrt(8) - 1), "a 0, b 1, c 0": 0, "a 0, b 0, c 1": 100 * (3 / 2.9 - 1)}
    )
    assert dict(texts.series[0].points) == pytest.approx({"0": 0, "1": 50}, abs=0.001)
    assert [line.star for line in pareto.series] == [False, False, True, False]
    assert [line.back for line in pareto.series] == [True, False, False, False]
    assert [line.label for line in pareto.series] == ["", "1, 0, 0", "0, 1, 0", "0, 0, 1"]
    assert pareto.note.endswith("At the points: the weight of a, b, c.")
    assert [tuple(round(value, 3) for value in point) for point in pareto.series[0].points] == [(2, 4), (3, 3)]


def test_what_has_too_little_text_stands_back() -> None:
    points = [
        _point(name, size, one) for name, one in {"a": (4.0, 2.0), "b": (3.0, 3.0)}.items() for size in (400, 500)
    ]
    points = [replace(one, last_count=19 if one.mixture == "a" or one.vocab_size == 500 else 20) for one in points]
    swept = Swept(Path(), tuple(points), (), recommend(points, ForModel()), (), {"a": {"a": "1"}, "b": {"b": "1"}})
    table, _ = swept.shown()
    assert isinstance(table, Table)
    assert {at for at, mark in table.marks().items() if mark == "excluded"} == {(0, 2), (0, 3), (1, 3)}
    assert [cell[-1] == "†" for row in table.texts() for cell in row[2:]] == [True, True, False, True]
    assert [(line.name, line.back) for line in swept.figures()[0].series] == [("a 1, b 0†", True), ("a 0, b 1", False)]


def test_numbers_of_the_model_are_read_or_refused() -> None:
    assert for_model(parameters="1.5B", tokens="2T", hidden_size="2,048") == ForModel(1.5e9, 2e12, 2048)
    for wrong in ({"parameters": "x"}, {"parameters": "0"}, {"tokens": "2T"}, {"hidden_size": "4096"}):
        with pytest.raises(UsageError, match="--"):
            for_model(**wrong)
