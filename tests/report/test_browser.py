"""The page of a report in a browser fits, can be read and reached, requests nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browser import COLLISIONS, too_low_contrasts, wait_for

import bpe_pipeline
from bpe_pipeline.reports.drawing import can_draw


def _of_a_run(reported: Path) -> str:
    if not can_draw():
        pytest.skip("needs vl-convert")
    return (reported / "report.html").read_text(encoding="utf-8")


@contextmanager
def opened(browser: Any, page: Path, width: int = 1280, scheme: str = "light") -> Iterator[Any]:
    """Open a page, which must request only itself and run nothing that its texts hold."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 844})
    view = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    view.on("request", lambda request: asked.append(request.url))
    view.on("pageerror", lambda error: wrong.append(str(error)))
    view.on("console", lambda message: wrong.append(message.text))
    view.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    context.route("**/*", lambda route: route.continue_() if route.request.url == page.as_uri() else route.abort())
    view.goto(page.as_uri())
    yield view
    assert (asked, wrong) == ([page.as_uri()], [])
    context.close()


def require_fit(view: Any) -> None:
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert too_low_contrasts(view) == {}
    assert view.evaluate(COLLISIONS) == []


OTHERS = [pytest.param(*view, marks=pytest.mark.slow) for view in ((390, "light"), (1280, "light"), (1280, "dark"))]


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), *OTHERS])
def test_a_page_fits_is_readable_and_requests_nothing(width, scheme, reported, browser, tmp_path) -> None:
    page = tmp_path / "page.html"
    page.write_text(_of_a_run(reported), encoding="utf-8")
    assert page.stat().st_size < 5e6
    with opened(browser, page, width, scheme) as view:
        require_figures(view, scheme)
        assert "<script>alert(1)" in view.inner_text("main")
        assert view.evaluate("document.querySelectorAll('script').length") == 5  # one is Vega's, unpacked
        assert view.evaluate("document.querySelectorAll('main img, main b[onerror]').length") == 0
        assert not {"\x00", "\u202e", "\u2066"} & {*view.inner_text("main")}
        require_fit(view)
        view.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        require_fit(view)
        sizes = "[...document.querySelectorAll('p, td, code')].map(e => parseFloat(getComputedStyle(e).fontSize))"
        assert min(view.evaluate(sizes)) >= 11.5
        require_reachable(view)
        seen = "[...document.querySelectorAll('h1, h2, h3, h4')].filter((one) => one.offsetParent)"
        levels = view.evaluate(f"{seen}.map((one) => Number(one.tagName[1]))")
        assert all(after <= before + 1 for before, after in pairwise(levels))
        targets = "[...document.querySelectorAll('nav a')].map((one) => document.querySelector(one.hash) !== null)"
        assert view.evaluate(targets) == [True] * 5


def require_figures(view: Any, scheme: str) -> None:
    """Every figure is drawn, in colours that change with the scheme."""
    names = ("size-curve", "languages")
    for name in names:
        wait_for(view, f"document.querySelectorAll('#{name} svg .mark-symbol path').length > 0")
    path = "path => [...document.querySelectorAll(path)].filter(p => p.getBBox().width > 0).length"
    assert [name for name in names if not view.evaluate(path, f"#{name} svg .mark-symbol path")] == []
    colour = "getComputedStyle(document.querySelector('#languages .mark-text text')).fill"
    for changed in ("light" if scheme == "dark" else "dark", scheme):
        before = view.evaluate(colour)
        view.emulate_media(color_scheme=changed)
        wait_for(view, f"{colour} !== '{before}'")
        require_fit(view)


def require_reachable(view: Any) -> None:
    """What scrolls sideways is reached with the keyboard, and every picture has a name."""
    unreachable = """[...document.querySelectorAll('main *')].filter(one =>
        one.scrollWidth > one.clientWidth + 1 && ['auto', 'scroll'].includes(getComputedStyle(one).overflowX)
        && !(one.tabIndex === 0 && one.getAttribute('role') && one.getAttribute('aria-label'))).length"""
    assert view.evaluate(unreachable) == 0
    unnamed = (
        "[...document.querySelectorAll('main svg')].filter(it => !it.closest('[aria-label], [aria-hidden]')).length"
    )
    assert view.evaluate(unnamed) == 0


def test_search_finds_every_token_with_the_keyboard(reported: Path, browser: Any) -> None:
    assert _of_a_run(reported)
    tokens = bpe_pipeline.load(reported).vocab.values()
    with opened(browser, reported / "report.html") as view:
        wait_for(view, "document.querySelector('#languages svg text') !== null")
        assert view.inner_text("label[for=search]").startswith("Search all 350 tokens")
        view.evaluate("document.querySelector('h1').focus()")
        for _ in range(40):
            view.keyboard.press("Tab")
            if view.evaluate("document.activeElement.id") == "search":
                break
        for wanted, expected in (
            (" low", sum(b" low" in token.lower() for token in tokens)),
            ("300", sum(b"300" in token for token in tokens) + 1),
            ("no such token", 0),
        ):
            view.keyboard.press("Control+a")
            view.keyboard.type(wanted)
            wait_for(view, f"document.getElementById('found').textContent.startsWith('{expected} found')")
            assert view.evaluate("document.querySelectorAll('#results li').length") == expected


def test_a_figure_is_saved_as_svg_in_light_colours_and_fits_the_printed_page(reported: Path, browser: Any) -> None:
    assert _of_a_run(reported)
    with opened(browser, reported / "report.html", scheme="dark") as view:
        wait_for(view, "document.querySelectorAll('figure .save').length === 2")
        view.focus("#languages ~ .save")
        with view.expect_download() as downloaded:
            view.keyboard.press("Enter")
        assert downloaded.value.suggested_filename == "languages.svg"
        saved = Path(downloaded.value.path()).read_text()
        assert saved.startswith("<svg")
        assert "#0072b2" in saved
        assert "var(" not in saved
        view.emulate_media(media="print")
        view.set_viewport_size({"width": 640, "height": 844})
        fits = (
            "[...document.querySelectorAll('figure svg')].every(one => one.getBoundingClientRect().right <= innerWidth)"
        )
        assert view.evaluate(fits)
        assert view.evaluate("getComputedStyle(document.querySelector('#languages text')).fill") == "rgb(29, 36, 48)"
