"""The pictures of the pages: a report, and what a command shows on a terminal.

BPE_PIPELINE_TEST_DATA=texts python docs/pictures.py docs/pages/images      needs Chromium and what the tests need
"""

import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from browser import chromium, wait_for
from command import run_process, succeeded
from terminal import output_on_a_terminal, screens

_ENVIRONMENT = {"COLUMNS": "118", "COLORTERM": "truecolor", "BPE_PIPELINE_REPORT": "page"}
_STYLE = "background:#12181f;color:#e6edf3;display:inline-block;margin:0;padding:12px 16px;font:13px/1.4 monospace"

_FIGURES = "[...document.querySelectorAll('figure')].every((one) => one.querySelector('svg, img, canvas') !== null)"


def hold_out(texts: Path, home: Path) -> None:
    """Copy texts: the last twentieth of each to `unseen`, the rest to `corpus`."""
    for name in ("corpus", "unseen"):
        (home / name).mkdir()
    for path in texts.glob("*.txt"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        cut = len(lines) * 19 // 20
        for name, part in (("corpus", lines[:cut]), ("unseen", lines[cut:])):
            (home / name / path.name).write_text("".join(part), encoding="utf-8")


def of_reports(browser: Any, home: Path, images: Path) -> None:
    """Measure a tokenizer on text that was held out, and take pictures of its report, on a laptop and a phone."""
    _train(home, "run", "corpus", "32k", "--pattern", "o200k")
    _run(home, "report", "run", "--held-out", "unseen", "--compare", "gpt2")
    for width in (1280, 390):
        view = _opened(browser, home / "run" / "report.html", width)
        size = {"width": width, "height": 1100}
        if width > 390:  # ends below the first row of figures
            box = view.locator(".plots").first.bounding_box()
            size["height"] = box["y"] + box["height"] + 16
        view.screenshot(path=images / f"report-{width}.png", clip={"x": 0, "y": 0, **size}, full_page=True)
        view.close()


def _train(home: Path, name: str, corpus: str, size: str, *options: str) -> None:
    _run(home, "train", corpus, "--output", name, "--vocab-size", size, *options)


def _run(home: Path, *words: str) -> None:
    succeeded(run_process(*words, cwd=home, env=_ENVIRONMENT))


def _opened(browser: Any, page: Path, width: int) -> Any:
    view = browser.new_page(color_scheme="light", viewport={"width": width, "height": 1100})
    view.goto(page.as_uri())
    wait_for(view, _FIGURES)
    return view


def of_the_terminal(browser: Any, home: Path, images: Path) -> None:
    """Take pictures of a run half way, and of a text explained."""
    [(command, seen)] = _shown(home, "train", "corpus", "--output", "runs/a", "--vocab-size", "32k").items()
    half = min(seen, key=lambda one: abs(int((re.findall(r"merging.* (\d+)%", one) or [0])[-1]) - 50))
    _photograph(browser, {command: half}, images / "terminal-progress.png")
    explained = _shown(home, "explain", "--tokenizer", "runs/a", "1,234 lanterns")
    _photograph(browser, {name: one[-1] for name, one in explained.items()}, images / "terminal-explain.png")


def _shown(home: Path, *words: str) -> dict[str, list[str]]:
    written = output_on_a_terminal(words, home, **_ENVIRONMENT)
    return {shlex.join(["bpe-pipeline", *words]): screens(written)}


def _photograph(browser: Any, shown: Mapping[str, str], path: Path) -> None:
    console = Console(record=True, width=118, file=io.StringIO(), force_terminal=True)
    for command, screen in shown.items():
        console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
        console.print(Text.from_ansi(screen))
    body = console.export_html(theme=MONOKAI, inline_styles=True, code_format="{code}")
    view = browser.new_page(viewport={"width": 1280, "height": 900})
    view.set_content(f'<body style="margin:0"><pre style="{_STYLE}">{body}</pre>')
    view.locator("pre").screenshot(path=path)
    view.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, chromium() as started:
        texts = Path(os.environ["BPE_PIPELINE_TEST_DATA"])
        hold_out(texts, Path(scratch))
        of_reports(started, Path(scratch), Path(sys.argv[1]))
        of_the_terminal(started, Path(scratch), Path(sys.argv[1]))
