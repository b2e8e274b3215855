"""The report on rows of chat data: lengths, what a cutoff cuts, what is trained on; their text."""

import json
import re
import shutil
from collections import Counter
from operator import ne as unlike
from pathlib import Path
from typing import Any

import pytest
from chat_cases import dialog, encode_rows, read_rows, small_tokenizer, write_lines
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.extensions.chat.encode import encode_chat


@pytest.fixture(scope="module")
def cut(home: Path) -> Path:
    """The rows of the conversations, cut to 50 tokens."""
    succeeded(encode_rows(home, home / "cut", home / "rows.jsonl", "--sequence-length", 50))
    return home / "cut"


def _in_memory(home: Path, sequence_length: int) -> list[dict[str, list[int]]]:
    lines = map(json.loads, (home / "rows.jsonl").read_text().splitlines())
    conversations = [compat.align_chat(row, "sharegpt") for row in lines]
    return list(encode_chat(conversations, small_tokenizer(), "chatml", sequence_length))


def test_rows_are_those_of_python(home: Path, cut: Path) -> None:
    expected = _in_memory(home, 50)
    assert read_rows(cut) == [row | {"attention_mask": [1] * len(row["labels"])} for row in expected]


def test_info_says_what_is_dropped_and_cut(home: Path, cut: Path) -> None:
    rows, whole = _in_memory(home, 50), _in_memory(home, 10_000)
    shown = run("info", cut).stdout
    assert f"{300 - len(rows)} conversations dropped: not pairs of a question and an answer (first: {home}" in shown
    assert f"{sum(map(unlike, whole, rows))} conversations truncated to the sequence length (first: {home}" in shown
    lengths = sorted(len(row["labels"]) for row in whole)
    median = lengths[(len(lengths) - 1) // 2]
    assert f"{len(whole)} of {lengths[0]} to {lengths[-1]} tokens: median {median}, 90th percentile " in shown


def test_a_report_is_the_same_as_text_as_json_and_in_python(cut: Path) -> None:
    report = bpe_pipeline.report(cut)
    assert str(report) == succeeded(run("report", cut)).stdout.rstrip("\n")
    assert json.loads(json.dumps(report.to_json())) == json.loads(run("report", cut, "--json").stdout)


def test_a_report_says_what_is_cut_and_dropped(home: Path, cut: Path) -> None:
    report, whole = bpe_pipeline.report(cut), [len(row["labels"]) for row in _in_memory(home, 10_000)]
    lengths = dict(report["conversations"].lengths)
    assert lengths == Counter(length if length < 512 else length + length % 2 for length in whole)  # to nine digits
    longer = sum(count for length, count in lengths.items() if length > 50)
    assert f"50 tokens truncated {longer} ({longer / sum(lengths.values()):.1%}), leaving out " in str(report)
    assert f"{longer} conversations truncated to the sequence length" in str(report)
    assert "conversations dropped: not pairs of a question and an answer" in str(report)


def test_a_page_has_what_is_printed_and_figures_are_refused(cut: Path, tmp_path: Path) -> None:
    page, hostile = tmp_path / "a.html", tmp_path / "<script>alert(1)"
    shutil.copytree(cut, hostile)
    printed = succeeded(run("report", hostile, "--output", page)).stdout
    text = page.read_text()
    assert "<script" not in text
    for words in (
        "What a cutoff truncates",
        "&lt;script&gt;alert(1)",
        *re.findall(r"[\d,]+ conversations dropped", printed),
    ):
        assert words in text
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(run("report", hostile, "--json").stdout)
    assert "exists" in refused(run("report", hostile, "--output", page), 1)
    succeeded(run("report", hostile, "--output", page, "--overwrite"))
    for words in (("--figures", tmp_path), ("--held-out", tmp_path)):
        assert f"is no trained tokenizer: leave out {words[0]}" in refused(run("report", cut, *words), 2)


@pytest.mark.parametrize("words", [(), ("--pack", "neat", "--sequence-length", 99), ("--shard-format", "parquet")])
def test_decode_marks_what_is_trained_on_and_info_says_how_much(home: Path, tmp_path: Path, words: Any) -> None:
    rows = [dialog("the low", "lower"), dialog(" a\n", "\n b \n", "c", "d")]
    write_lines(tmp_path / "rows.jsonl", rows)
    succeeded(encode_rows(home, tmp_path / "rows", tmp_path / "rows.jsonl", *words))
    text = succeeded(run("decode", "--mask", tmp_path / "rows", "--tokenizer", home / "tokenizer")).stdout
    turns = (
        "\u27e6\n b \n<|im_end|>\n\u27e7",
        "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n",
        "\u27e6d<|im_end|>",
    )
    assert "\u27e6lower<|im_end|>\n\u27e7" in text
    assert "".join(turns) in text
    assert "<|pad|>" not in text
    facts = bpe_pipeline.info(tmp_path / "rows")
    trained = sum(int(number) for number in re.findall(r"row \d+: \d+ tokens, (\d+) trained on", text))
    assert (facts["template"], facts["trained_on_tokens"]) == ("chatml", trained)
    share = trained / (facts["tokens"] - facts["padded_tokens"])
    assert f"{trained:,} ({share:.1%}" in succeeded(run("info", tmp_path / "rows")).stdout


def test_only_rows_of_chat_data_have_a_mask(home: Path, tmp_path: Path) -> None:
    tokenizer = ("--tokenizer", home / "tokenizer")
    succeeded(run("encode", home / "rows.jsonl", "--input-format", "text", *tokenizer, "-o", tmp_path / "out"))
    assert "has no labels: --mask is for" in refused(run("decode", "--mask", tmp_path / "out", *tokenizer), 2)
    assert "--mask shows rows of chat data" in refused(run("decode", "--mask", 5, *tokenizer), 2)
