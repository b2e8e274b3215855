"""One run with its report, for what is asked of the files and for what is asked of the page in a browser."""

from pathlib import Path

import pytest
from command import run, succeeded


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose file names, special tokens and text would all run code in a page without escaping."""
    home = tmp_path_factory.mktemp("reported")
    corpus = home / "corpus"
    corpus.mkdir()
    markup = "<script>alert(2)</script><img src=http://example.com/x onerror=alert(3)> &amp; "
    markup += "</style> {{ 7 * 7 }} {% raw %} ${7*7} \x00 \u202eabc\u2066 "
    for name, text in {
        "<img src=x onerror=alert(4)>.txt": markup * 200,
        "words.txt": "the low lower lowest The LOW \xe9t\xe9 привет, мир! 東京 " * 400,
        "other.txt": "http://example.org/index.html ---------------- 12345 " * 100,
    }.items():
        (corpus / name).write_text(text)
    (corpus / "bad.txt").write_bytes(b"not \xff UTF-8 " * 20)
    options = ["--vocab-size", 350, "--special-token", "</script><script>alert(1)</script>", "--workers", 1]
    result = succeeded(run("train", corpus, "--output", home / "run<b>", *options))
    assert "warning" not in result.stderr
    return home / "run<b>"
