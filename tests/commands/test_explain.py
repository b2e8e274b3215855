"""What `explain` prints and writes."""

import json
from html.parser import HTMLParser
from pathlib import Path

from command import refused, run
from pyarrow import parquet

import pipeline


def test_counts_are_those_of_the_run(trained: Path, tmp_path: Path) -> None:
    text = "the <|endoftext|> lower case"
    for home in (trained, trained / "tokenizer", trained / "tokenizer" / "tokenizer.json"):
        result = run("explain", "--tokenizer", home, text, "--json")
        assert result.returncode == 0, result.stderr
        document = json.loads(result.stdout)
        assert document["ids"] == pipeline.load(trained).encode(text)
        counts = parquet.read_table(trained / "merges.parquet")["count"].to_pylist()
        merges = [merge for piece in document["pieces"] for merge in piece["merges"]]
        assert merges
        assert [merge["count"] for merge in merges] == [counts[merge["rank"]] for merge in merges]
    pipeline.load(trained).save(tmp_path)
    shown = run("explain", "--tokenizer", tmp_path, text).stdout
    assert "    h + e" in shown
    assert "in training" not in shown
    assert "<|endoftext|>: id 599, special token" in shown


def test_an_extended_tokenizer_in_a_run_has_no_counts_of_other_merges(trained: Path, tmp_path: Path) -> None:
    other = pipeline.Tokenizer.from_merges([(b"e", b" "), (b"x", b"y")], ["<|endoftext|>"])
    (tmp_path / "run").symlink_to(trained)
    home = tmp_path / "run" / "other"
    try:
        other.save(home)
        assert "in training" not in run("explain", "--tokenizer", home, "xy").stdout
    finally:
        for path in home.iterdir():
            path.unlink()
        home.rmdir()


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


def test_the_page_has_the_text_and_nothing_that_runs(trained: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["explain", "--tokenizer", trained, "the <script>alert(1)</script>", "--html", page]
    assert run(*words).stdout == f"{page}\n"
    parsed = _Page()
    parsed.feed(page.read_text())
    assert "script" not in parsed.tags
    assert "␣<" in parsed.text
    pieces = pipeline.load(trained).explain(str(words[3])).pieces
    assert parsed.tags.count("section") == 1 + len({piece.piece for piece in pieces})
    assert "exists" in refused(run(*words), 1)
    assert run(*words, "--overwrite").returncode == 0


def test_the_page_of_a_long_text_is_capped(trained: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for different in (3, 600):
        text = "".join(f" x{'abcdefghij'[number % 10] * (number // 10 + 1)}" for number in range(different)) * 2
        words = ["explain", "--tokenizer", trained, text, "--html", page, "--overwrite"]
        assert run(*words).returncode == 0
        parsed = _Page()
        parsed.feed(page.read_text())
        assert parsed.tags.count("section") == 1 + min(different, 500)
        assert ("The first 500 of 600 different pieces" in parsed.text) == (different == 600)


def test_what_does_not_fit_is_refused(trained: Path, tmp_path: Path) -> None:
    words = ["explain", "--tokenizer", trained, "a"]
    assert "--html" in refused(run(*words, "--json", "--html", tmp_path / "x.html"), 2)
    assert "--html FILE" in refused(run(*words, "--overwrite"), 2)
    assert "no ids" in run(*words[:-1], "").stdout
