"""Look at pages in headless Chromium: what overflows, what is hard to read, what collides, what is requested."""

import contextlib
import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=found[0], args=["--no-sandbox"])
        yield launched
        launched.close()


def wait_for(view: Any, expression: str) -> None:
    """Wait until an expression is true; poll from outside, since the page forbids evaluation."""
    deadline = time.monotonic() + 60
    while not view.evaluate(expression):
        assert time.monotonic() < deadline, expression
        time.sleep(0.05)


CONTRASTS = """() => {
  const channels = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => [r, g, b].map((c) => linear(c / 255))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const found = {};
  const texts = "h1,h2,h3,h4,p,th,td,dt,dd,li,code,figcaption,label,input,span,sub,summary,svg text";
  for (const element of document.querySelectorAll(texts)) {
    if (!element.textContent.trim() && element.tagName !== "INPUT") continue;
    let back = element;
    while (back && (channels(getComputedStyle(back).backgroundColor)[3] ?? 1) === 0) back = back.parentElement;
    const style = getComputedStyle(element);
    const front = channels(element.tagName === "text" ? style.fill : style.color);
    const pair = [light(front), light(channels(getComputedStyle(back).backgroundColor))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    const name = element.tagName + "." + (element.getAttribute("class") || "");
    found[name] = Math.min(found[name] ?? 99, ratio);
  }
  return found;
}"""


COLLISIONS = """() => {
  const found = [];
  for (const figure of document.querySelectorAll("figure")) {
    const texts = [...figure.querySelectorAll("svg text, h3, figcaption")].filter((one) => one.textContent.trim());
    const boxes = texts.map((one) => [one.textContent, one.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
    boxes.forEach(([text, a], at) => {
      for (const [other, b] of boxes.slice(at + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 3) found.push(`${text} over ${other}`);
      }
      if (a.left < 0 || a.right > innerWidth) found.push(`${text} is cut off`);
    });
  }
  return found;
}"""


def too_low_contrasts(view: Any) -> dict[str, float]:
    return {name: round(ratio, 2) for name, ratio in view.evaluate(CONTRASTS).items() if ratio < 4.5}
