"""What the page of numbers says, worked by hand on small texts."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

import bpe_pipeline
from bpe_pipeline.extensions.inspect.diff import Compared

pytestmark = pytest.mark.filterwarnings("ignore:in a sample of the corpus NFC rewrites")
DECOMPOSED = "e\u0301te\u0301\nlow\n\ne\u0301\n"  # 8 + 4 + 1 + 4 bytes; in NFC 6 + 4 + 1 + 3


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Path]:
    """A tokenizer of single bytes, and one that puts text into NFC first."""
    (tmp_path / "a.txt").write_text(DECOMPOSED)
    (tmp_path / "corpus.txt").write_text("té low")
    for name in ("none", "nfc"):
        bpe_pipeline.train(tmp_path / "corpus.txt", output=tmp_path / name, vocab_size=257, normalize=name)
    return {name: tmp_path / name for name in ("none", "nfc")}


def numbers_of(run: Path, held_out: Any, **more: Any) -> list[dict[str, float]]:
    sample = bpe_pipeline.report(run, held_out=held_out, **more).numbers.sample
    return [one.whole.numbers for one in sample.tokenizers]


def test_lines_that_come_back_in_nfc_come_back(runs: dict[str, Path], tmp_path: Path) -> None:
    for home in runs.values():
        [found] = numbers_of(home, tmp_path / "a.txt")
        assert (found["round_trip"], found["lost"]) == (1, 0)


def test_one_column_divides_the_same_bytes(runs: dict[str, Path], tmp_path: Path) -> None:
    raw, normalized = len(DECOMPOSED.encode()), len(unicodedata.normalize("NFC", DECOMPOSED).encode())
    assert (raw, normalized) == (17, 14)
    [alone] = numbers_of(runs["none"], tmp_path / "a.txt")
    assert (alone["bytes"], alone["tokens"], alone["bytes_per_token"]) == (raw, raw, 1)
    for first, second in (("none", "nfc"), ("nfc", "none")):
        found = numbers_of(runs[first], tmp_path / "a.txt", compare=runs[second])
        sizes = [(one["bytes"], one["tokens"], one["bytes_per_token"]) for one in found]
        assert sizes == [(normalized, normalized, 1)] * 2
        compared: Compared = bpe_pipeline.diff(runs[first], runs[second], tmp_path / "a.txt")
        [source] = compared.sources
        assert (source.bytes, source.tokens, source.bytes_per_token) == (normalized, (normalized,) * 2, (1, 1))


def test_words_are_the_same_whether_a_file_has_a_name(runs: dict[str, Path], tmp_path: Path) -> None:
    """Each of the 5 words has as many tokens as bytes: 3 + 2 in 'low é', 5 + 1 + 3 in 'lower a low'."""
    files = {"en": "low \xe9\n", "sw": "lower\na low\n"}
    for name, text in files.items():
        (tmp_path / f"{name}.txt").write_text(text)
    paths = [tmp_path / f"{name}.txt" for name in files]
    for held_out in (paths, [f"{path.stem}={path}" for path in paths]):
        [found] = numbers_of(runs["none"], held_out)
        assert (found["tokens_per_word"], found["whole"]) == (pytest.approx(14 / 5), 1 / 5)


def test_the_model_card_has_the_size_of_the_text_without_weights(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("low " * 256)
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    bpe_pipeline.train(files, output=tmp_path / "run", vocab_size=259, weights=[1, 1000])
    assert "| trained on | 2.0 KiB of text |" in (tmp_path / "run/tokenizer/README.md").read_text()
    assert json.loads((tmp_path / "run/report.json").read_text())["corpus"]["bytes"] == 2048
    home = bpe_pipeline.combine({"low": 900}, output=tmp_path / "imported")
    bpe_pipeline.merge(home, vocab_size=258)
    assert "| trained on | counts from a mapping |" in (Path(str(home)) / "tokenizer/README.md").read_text()
