"""What `info` and the report say of languages that chose the merges."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chunk_tasks import random_words
from command import run, succeeded
from parity_runs import DEV, TRAIN, tokens_of

import bpe_pipeline
from bpe_pipeline.tokenizer.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def numbers(merged: Path) -> dict[str, Any]:
    """The section of the languages in report.json."""
    [section] = json.loads((merged / "report.json").read_text())["sections"]
    return dict(section["numbers"])


def test_info_names_the_languages_and_the_tie_break(merged: Path) -> None:
    facts = bpe_pipeline.info(merged)
    assert [language.split()[0] for language in facts["languages"]] == list(TRAIN)
    assert facts["options"]["tie_break"] == "greatest-letters"


def test_report_measures_the_dev_texts(merged: Path, numbers: dict[str, Any]) -> None:
    tokenizer = Tokenizer.load(merged / "tokenizer")
    measured = numbers["measured"]
    assert [language["name"] for language in measured] == list(TRAIN)
    assert [language["tokens"] for language in measured] == [tokens_of(tokenizer, one) for one in DEV.values()]
    assert [language["bytes"] for language in measured] == [
        sum(len(pre_token) * count for pre_token, count in counter.items()) for counter in DEV.values()
    ]


@pytest.mark.parametrize(("unit", "when"), [("bytes", "before"), ("tokens", "after")])
def test_report_has_the_gini_coefficients(merged: Path, numbers: dict[str, Any], unit: str, when: str) -> None:
    one, other = (language[unit] for language in numbers["measured"])
    assert numbers[f"gini_{when}"] == pytest.approx(abs(one - other) / (2 * (one + other)))
    assert "Gini coefficient" in (merged / "report.txt").read_text()


def test_report_counts_the_merges_of_each_language(merged: Path, numbers: dict[str, Any]) -> None:
    languages = pq.read_table(merged / "merges.parquet")["language"].to_pylist()
    assert [one["merges"] for one in numbers["measured"]] == [languages.count(at) for at in (0, 1)]
    assert len(languages) == 60


def test_report_of_fewer_merges_measures_no_language(merged: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(merged, tmp_path / "run")
    bpe_pipeline.merge(copied, vocab_size=256 + 15)
    assert json.loads((copied / "report.json").read_text())["sections"] == []  # they were measured after 60 merges


def test_verdict_compares_the_languages(merged: Path, numbers: dict[str, Any], tmp_path: Path) -> None:
    copied = shutil.copytree(merged, tmp_path / "again")
    bpe_pipeline.report(copied)
    (base, first), (other, second) = zip(TRAIN, (one["tokens"] for one in numbers["measured"]), strict=True)
    expected = f"{other} {second / first:.2f} times the tokens of {base} for the same --dev text; Gini"
    assert f"  Cost by language  {expected}" in (copied / "report.txt").read_text()


def test_language_that_chooses_many_rare_merges_is_warned_of(tmp_path: Path) -> None:
    counters = {"en": {b" the": 500, b" river": 300}, "eu": {b" " + word: 2 for word in random_words(3, 400).split()}}
    homes = {name: bpe_pipeline.combine(counter, output=tmp_path / name) for name, counter in counters.items()}
    words = ["parity", *(f"{name}={home}" for name, home in homes.items()), "--ratio", 1, "--ratio", 5]
    result = succeeded(run(*words, "--vocab-size", 320, "--output", tmp_path / "p"))
    assert "warning: eu chose " in result.stderr
    [advice] = [
        one for one in json.loads((tmp_path / "p" / "report.json").read_text())["advice"] if one["evidence"].get("rare")
    ]
    rows = pq.read_table(tmp_path / "p" / "merges.parquet").to_pylist()
    assert advice["evidence"]["rare"]["eu"] == sum(row["language"] == 1 and row["count"] < 5 for row in rows)
    assert advice["evidence"]["chosen"]["eu"] == sum(row["language"] == 1 for row in rows)
    assert advice["take"] == "--min-frequency 20"


def test_bytes_and_tokens_of_a_mixture_are_called_weighted_unless_other_texts_are_measured(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two three " * 300)
    (tmp_path / "b.txt").write_text("eins zwei drei " * 50)
    texts = [f"{name}={tmp_path / name}.txt" for name in "ab"]
    words = ["parity", *texts, "--temperature", "2", "--vocab-size", 262]
    dev = [word for text in texts for word in ("--dev", text)]
    assert "weighted bytes  weighted tokens" in succeeded(run(*words, "--output", tmp_path / "x")).stdout
    assert "weighted bytes" not in succeeded(run(*words, *dev, "--output", tmp_path / "y")).stdout


def test_a_language_that_chose_hardly_any_merge_is_warned_of(runs: dict[str, Path], tmp_path: Path) -> None:
    words = ["parity", runs["en"], runs["sw"], "--ratio", "1", "--ratio", "1000", "--vocab-size", 256 + 60]
    warned = succeeded(run(*words, "--output", tmp_path / "run")).stderr
    assert re.search(
        r"of 60 merges few were chosen by (en|sw) 0: the vocabulary compresses other languages; give --dev", warned
    )
