"""The pages of `sweep` and `explain --html` in a browser: they fit, can be read and reached, and request nothing."""

from pathlib import Path
from typing import Any

import pytest
from browser import COLLISIONS, too_low_contrasts
from peers import generated_text

import pipeline
from pipeline.report import explained, sweep_page
from pipeline.report.sweep_rule import ForModel, recommend
from pipeline.tokenizer.sweep_worker import Measured, Point

HOSTILE = "</p><script>alert(1)</script><img src=x onerror=alert(2)>"


def _of_a_sweep() -> str:
    names = [
        "english.txt",
        f"a rather long name of a file {HOSTILE}.txt",
        *(f"language-{number}" for number in range(12)),
    ]
    points = [
        Point(mixture, size, size, 100, tuple(Measured(kind, name, 10_000, 10_000 - size // 4) for name in names
                                              for kind in ("source", "held out")))
        for mixture in ("stories-x1+recipes-x1+a-third-run-of-these-x2.5", "b-x1")
        for size in (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
    ]  # fmt: skip
    chosen = recommend(points, ForModel())
    overlap = sweep_page.Overlap((points[0].mixture, "b-x1"), 32_000, 20_000, 30_000)
    return sweep_page.page("sweep", points, [overlap], chosen, [sweep_page.Part(4, 2.5, -0.01, 900, 1000)])


def _of_a_text() -> str:
    tokenizer = pipeline.train_from_iterator([generated_text(1, 300)], vocab_size=400)
    text = f"the low <|endoftext|> {HOSTILE} {'long' * 60} привет 東京 \x00\t\n {generated_text(2, 20)}"
    return explained.page(pipeline.explain(text, tokenizer), "runs/a")


OTHERS = ((390, "light"), (1280, "light"), (1280, "dark"))


@pytest.mark.parametrize("made", [_of_a_sweep, _of_a_text])
@pytest.mark.parametrize(
    ("width", "scheme"),
    [(390, "dark"), *(pytest.param(*view, marks=pytest.mark.slow) for view in OTHERS)],
)
def test_a_page_fits_is_readable_and_requests_nothing(
    made: Any, width: int, scheme: str, browser: Any, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text(made(), encoding="utf-8")
    view = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    asked: list[str] = []
    wrong: list[str] = []
    view.on("request", lambda request: asked.append(request.url))
    view.on("console", lambda message: wrong.append(message.text))
    view.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    view.goto(page.as_uri())
    assert asked == [page.as_uri()]
    assert wrong == []
    assert "<script>alert(1)" in view.inner_text("main")
    assert view.evaluate("document.querySelectorAll('script, main img').length") == 0
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert too_low_contrasts(view) == {}
    assert view.evaluate(COLLISIONS) == []
    unreachable = """[...document.querySelectorAll('main *')].filter(one =>
        one.scrollWidth > one.clientWidth + 1 && ['auto', 'scroll'].includes(getComputedStyle(one).overflowX)
        && !(one.tabIndex === 0 && one.getAttribute('role') && one.getAttribute('aria-label'))).length"""
    assert view.evaluate(unreachable) == 0
    unnamed = "[...document.querySelectorAll('svg:not([aria-hidden])')].filter(one => !one.ariaLabel).length"
    assert view.evaluate(unnamed) == 0
    view.close()
