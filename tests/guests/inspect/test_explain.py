"""What `explain` prints and writes."""

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command import refused, run, succeeded
from pyarrow import parquet

import pipeline


def test_counts_are_those_of_the_run(trained: Path, tmp_path: Path) -> None:
    text = "the <|endoftext|> lower case"
    counts = parquet.read_table(trained / "merges.parquet")["count"].to_pylist()
    for home in (trained, trained / "tokenizer", trained / "tokenizer" / "tokenizer.json"):
        document = json.loads(succeeded(run("explain", "--tokenizer", home, text, "--json")).stdout)
        assert document["ids"] == pipeline.load(trained).encode(text)
        merges = [merge for piece in document["pieces"] for merge in piece["merges"]]
        assert merges
        assert [merge["count"] for merge in merges] == [counts[merge["rank"]] for merge in merges]
    pipeline.load(trained).save(tmp_path)
    shown = run("explain", "--tokenizer", tmp_path, text).stdout
    assert "    h + e" in shown
    assert "in training" not in shown
    assert "<|endoftext|>: id 599, special token" in shown


def test_an_extended_tokenizer_in_a_run_has_no_counts_of_other_merges(trained: Path, tmp_path: Path) -> None:
    home = shutil.copytree(trained, tmp_path / "run") / "other"
    pipeline.Tokenizer.from_merges([(b"e", b" "), (b"x", b"y")], ["<|endoftext|>"]).save(home)
    assert "in training" not in run("explain", "--tokenizer", home, "xy").stdout


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def _parsed(page: Path) -> _Page:
    parsed = _Page()
    parsed.feed(page.read_text())
    return parsed


def test_the_page_has_the_text_and_nothing_that_runs(trained: Path, tmp_path: Path) -> None:
    page, text = tmp_path / "page.html", "the <script>alert(1)</script>"
    words = ["explain", "--tokenizer", trained, text, "--html", page]
    assert run(*words).stdout == f"{page}\n"
    parsed = _parsed(page)
    assert "script" not in parsed.tags
    assert "␣<" in parsed.text
    assert parsed.tags.count("section") == 1 + len({one.piece for one in pipeline.explain(text, trained).pieces})
    assert "exists" in refused(run(*words), 1)
    succeeded(run(*words, "--overwrite"))


@pytest.mark.parametrize("different", [3, 600])
def test_the_page_of_a_long_text_is_capped(different: int, trained: Path, tmp_path: Path) -> None:
    text = "".join(f" x{'abcdefghij'[number % 10] * (number // 10 + 1)}" for number in range(different)) * 2
    succeeded(run("explain", "--tokenizer", trained, text, "--html", tmp_path / "page.html"))
    parsed = _parsed(tmp_path / "page.html")
    assert parsed.tags.count("section") == 1 + min(different, 500)
    assert ("The first 500 of 600 different pieces" in parsed.text) == (different == 600)


def test_what_does_not_fit_is_refused(trained: Path, tmp_path: Path) -> None:
    words = ["explain", "--tokenizer", trained, "a"]
    assert "--html" in refused(run(*words, "--json", "--html", tmp_path / "x.html"), 2)
    assert "--html FILE" in refused(run(*words, "--overwrite"), 2)
    assert "no ids" in run(*words[:-1], "").stdout
