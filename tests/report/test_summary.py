"""The summary at the end of a command is short, and the report has the rest."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import peers
import pytest
from command import run, succeeded

import bpe_pipeline
from bpe_pipeline.reports.encoding import EncodingSummary
from bpe_pipeline.reports.parts import Rows, Table, as_text
from bpe_pipeline.shards.encoded_corpus import EncodedCorpus


@pytest.fixture
def encoded(text: Path, trained: Path, tmp_path: Path) -> EncodedCorpus:
    return bpe_pipeline.encode(text, tokenizer=trained, output=tmp_path / "encoded")


def test_summary_has_at_most_eight_lines_and_the_report_the_rest(tmp_path: Path) -> None:
    text = peers.generated_text(1, 3000).encode()
    (tmp_path / "a.txt").write_bytes(text + b"\xff<|endoftext|>" + "\u1c89 ".encode() + text)
    (tmp_path / "b.jsonl").write_text('{"text": "low"}\nnot json\n{"body": "lower"}\n')
    (tmp_path / "empty.txt").touch()
    words = ["train", "a.txt", "b.jsonl", "empty.txt", "--output", "run", "--vocab-size", "400,350,9000"]
    odd = ["--pattern", r"(?:(?<=\s)\p{L}+|.|\s)", "--min-pre-token-count", 3]
    result = succeeded(run(*words, *odd, cwd=tmp_path))
    lines = ["corpus", "skipped/altered", "vocabulary", "bytes per token", "time", "tokenizer", "report", "next"]
    assert [line.split("  ")[0] for line in result.stdout.splitlines()] == lines
    for fact in ("invalid", "tokenizer-350", "run/report.html", "too rare", "peak memory", "encode --tokenizer"):
        assert fact in result.stdout
    report = (tmp_path / "run" / "report.txt").read_text()
    for fact in ("first: ", "merge run --vocab-size", "other sizes ", "no gpt2 files"):
        assert fact in report
        assert fact not in result.stdout
    assert "no gpt2 files: " in result.stderr
    again = succeeded(run("merge", "run", "--vocab-size", 300, cwd=tmp_path)).stdout  # from the same merge list
    rare = r"[\d,]+ of [\d,]+ unique pre-tokens, too rare for --min-pre-token-count: \S+ of the text"
    assert re.findall(rare, again) == re.findall(rare, result.stdout) != []


def test_counting_and_encoding_have_short_summaries(text: Path, trained: Path, tmp_path: Path) -> None:
    counted = run("count", text, "--output", tmp_path / "run").stdout.splitlines()
    assert [line.split("  ")[0] for line in counted] == ["corpus", "time", "run", "next"]
    words = ["--tokenizer", trained, "--output", tmp_path / "shards", "--documents", "offsets"]
    assert len(run("encode", text, *words).stdout.splitlines()) <= 8


def test_encoding_says_which_tokenizer_of_a_run_it_used(text: Path, tmp_path: Path) -> None:
    run_ = tmp_path / "run"
    succeeded(run("train", text, "--output", run_, "--vocab-size", 300))
    succeeded(run("merge", run_, "--vocab-size", 280))
    encoded = succeeded(run("encode", text, "--tokenizer", run_, "--output", tmp_path / "a")).stdout
    assert f"tokenizer  {run_}/tokenizer (300 tokens); tokenizer-280 next to it: name one to use it\n" in encoded
    encoded = succeeded(run("encode", text, "--tokenizer", run_ / "tokenizer-280", "--output", tmp_path / "b")).stdout
    assert f"tokenizer  {run_}/tokenizer-280 (280 tokens)\n" in encoded
    said = succeeded(run("encode", "--text", "low", "--tokenizer", run_)).stderr
    assert said == f"with {run_}/tokenizer; next to it are tokenizer-280: name one to use it\n"
    assert succeeded(run("encode", "--text", "low", "--tokenizer", run_ / "tokenizer")).stderr == ""


def test_what_is_not_written_is_said_once(text: Path, tmp_path: Path) -> None:
    """Where it is news: not under each further size, and behind what is a warning."""
    words = ["--output", tmp_path / "run", "--pattern", "o200k", "--vocab-size"]
    first = succeeded(run("train", text, *words, 9000)).stderr
    assert first.count("no gpt2 files: ") == 1
    assert first.index("warning: ") < first.index("no gpt2 files: ")
    assert "no gpt2 files: " not in succeeded(run("merge", tmp_path / "run", "--vocab-size", 300)).stderr
    assert "no gpt2 files " in (tmp_path / "run" / "report.txt").read_text()


@pytest.mark.parametrize(
    ("changes", "shards"),
    [
        ({}, "(1 npy of uint16, "),
        ({"format": "arrow"}, "(1 arrow of int32, "),
        ({"format": "parquet", "dtype": "uint32", "columns": {"input_ids": "int32"}}, "(1 parquet of int32, "),
        ({"format": "bin"}, "(1 bin of uint16, "),
        ({"format": "bin", "dtype": "uint32"}, "; nanoGPT's loader reads uint16: change its dtype)"),
    ],
)
def test_summary_of_shards_names_the_dtype_that_a_reader_finds(
    encoded: EncodedCorpus, trained: Path, tmp_path: Path, changes: dict[str, Any], shards: str
) -> None:
    shown = str(EncodingSummary(tmp_path, replace(encoded, **changes), {}, 0, 0, tokenizer=trained))
    assert shards in shown
    assert ("nanoGPT" in shown) == ("nanoGPT" in shards)
    assert shown.endswith(" | head")
    assert "attention_mask" not in shown


def test_summary_of_packed_rows_says_how_to_keep_documents_apart(encoded: EncodedCorpus, tmp_path: Path) -> None:
    columns = {"input_ids": "int32", "position_ids": "int32"}
    packed = replace(encoded, columns=columns, pack="best-fit", format="arrow")
    shown = str(EncodingSummary(tmp_path, packed, {}, 0, 0))
    assert "position_ids  keep the documents of a row apart in batches without attention_mask" in shown


def test_the_best_and_the_worst_are_marked_by_what_is_shown() -> None:
    rows = (("a", 1.5, 9), ("b", 3.0, 9), ("c", None, 9), ("d", 2.0, 9), ("e", 3.0001, 9))
    down = Table("", ("", "x", "y"), rows, better={1: 1, 2: -1})
    assert down.marks() == {(0, 1): "worst", (1, 1): "best", (4, 1): "best"}  # all of y are alike
    assert replace(down, rows=rows[:1], better={1: -1, 2: -1}, across=True).marks() == {(0, 1): "best", (0, 2): "worst"}
    close = Table("", ("", "x"), (("a", 0.500), ("b", 0.505)), better={1: 1})
    assert close.marks() == {}  # less than 1 %
    assert replace(close, rows=(("a", 0.500), ("b", 0.506))).marks() == {(0, 1): "worst", (1, 1): "best"}
    assert as_text([down, Rows((("a", ["one", "two"]), ("b", ""), ("c", 1000)))]).splitlines()[1:] == [
        *("         x  y", "  a  1.500  9", "  b  3.000  9", "  c      –  9", "  d  2.000  9", "  e  3.000  9", ""),
        *("a  one", "   two", "c  1,000"),
    ]
