"""Skipped or altered input: how tallies add up, and how the command reports them."""

import gzip
import json
import re
from pathlib import Path

import pytest
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.skipped_or_altered import KINDS, MOST_EXAMPLES, Tally, add_up, in_words
from bpe_pipeline.extensions.chat.about import MALFORMED_TOOLS


def test_tallies_add_up_in_order() -> None:
    one, two = Tally(), Tally()
    one.add("replacements", 3, ["a", "b"])
    one.add("replacements", 0, ["never"])
    two.add("replacements", 20, map(str, range(20)))
    two.add("files_empty", 1, ["f"])
    two.add(MALFORMED_TOOLS, 2, [f"a.jsonl, byte {at}, template own" for at in (0, 9)])
    total = add_up([one.kinds, two.kinds])
    assert total["replacements"] == {"count": 23, "examples": ["a", "b", *map(str, range(MOST_EXAMPLES - 2))]}
    assert one.kinds["replacements"]["examples"] == ["a", "b"]
    cut, empty, without = in_words(total)  # those of an extension come last
    assert [cut.kind, str(empty)] == ["replacements", "1 file without text (first: f)"]
    assert without.without_locations().endswith("calls of them, are malformed")  # of one file
    assert set(total) <= set(KINDS)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = ['{"text": "some words and more words"}', '{"content": "other"}', "nonsense"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.txt").write_bytes(b"words \xff words")
    (tmp_path / "empty.txt").touch()
    return tmp_path


def test_summary_and_report_list_skipped_and_altered_input(corpus: Path) -> None:
    options = ["--output", "run", "--vocab-size", 262]
    result = succeeded(run("train", "a.jsonl", "b.txt", "empty.txt", *options, cwd=corpus))
    report = json.loads((corpus / "run" / "report.json").read_text())
    losses = {loss["kind"]: (loss["count"], loss["examples"]) for loss in report["corpus"]["losses"]}
    assert losses == {
        "replacements": (1, [f"{corpus}/b.txt, byte 6"]),
        "records_not_json": (1, [f"{corpus}/a.jsonl, byte 59"]),
        "records_without_field": (1, [f"{corpus}/a.jsonl, byte 38"]),
        "files_empty": (1, [f"{corpus}/empty.txt"]),
    }
    [row] = [line for line in result.stdout.splitlines() if line.startswith("skipped/altered")]
    assert row.endswith("1 file without text: report.txt"), row
    assert row.count("; ") == 3
    assert str(corpus) not in row
    listed = (corpus / "run" / "report.txt").read_text()
    assert all(examples[0] in listed for _, examples in losses.values())
    assert "1 file without text" in run("train", *options, cwd=corpus).stdout


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["fine.txt", "b.txt", "--fail-on-loss"], "replaced"),
        (["fine.txt", "empty.txt", "--fail-on-loss"], r"1 file without text \(first: "),
        (["fine.txt", "a.jsonl", "--fail-on-loss"], "not a JSON object"),
        (["a.jsonl", "--text-field", "body"], r"2 records skipped: no text field \(first: .*is --text-field right\?"),
    ],
)
def test_fail_on_loss_and_a_wrong_text_field_are_one_line(corpus: Path, words: list[str], named: str) -> None:
    (corpus / "fine.txt").write_text("some fine text to learn from")
    assert re.search(named, refused(run("count", *words, "--output", "run", cwd=corpus), 1))


def test_file_that_is_hardly_text_is_a_warning_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("some words äöü ".encode() * 90 + b"\xff" * 20)
    (tmp_path / "b.png").write_bytes(b"\x89PNG\r\n" + bytes(range(256)) * 40)
    result = run("train", "a.txt", "b.png", "--output", "run", "--vocab-size", 260, cwd=tmp_path)
    [line] = [line for line in result.stderr.splitlines() if "U+FFFD" in line]
    assert re.match(r"warning: 1 file more than a tenth of which is U\+FFFD(?!.*a\.txt).*b\.png", line)
    encoded = run("encode", "a.txt", "b.png", "--tokenizer", "run/tokenizer", "--output", "shards", cwd=tmp_path)
    assert line in encoded.stderr


NOTHING_LEFT = {
    "no JSON": ("a.jsonl", b"version 1\noid 2\n", (), "2 records skipped: not a JSON object"),
    "records without ends of lines": ("a.jsonl", b'{"text": "a"}{"text": "b"}', (), "1 record skipped: not a JSON"),
    "quotes of Python": ("a.jsonl", b"{'text': 'a'}\n", (), "1 record skipped: not a JSON object"),
    "empty texts": ("a.jsonl", b'{"text": ""}\n{"text": ""}\n', (), "all of it is empty"),
    "blank lines": ("a.jsonl", b"\n \n\n", (), "1 file without text"),
    "invalid UTF-8": ("a.jsonl", b'{"text": "a\xff"}\n', ("--errors", "skip"), "1 document with invalid UTF-8 skipped"),
    "only a byte order mark": ("a.txt", b"\xef\xbb\xbf", (), "1 file without text"),
    "nothing, compressed": ("a.txt.gz", gzip.compress(b""), (), "1 file without text"),
    "another field": ("a.jsonl", b'{"body": "a"}\n', (), "1 record skipped: no text field"),
}


@pytest.mark.parametrize("case", NOTHING_LEFT)
def test_a_command_with_no_text_left_ends_with_the_same_error(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, content, options, reason = NOTHING_LEFT[case]
    Path(name).write_bytes(content)
    Path("text.txt").write_text("a text")
    succeeded(run("train", "text.txt", "-o", "run", "--vocab-size", 258, "--quiet"))
    for verb, words in (
        ("count", ("count", "-o", "counted")),
        ("count", ("train", "-o", "trained")),
        ("encode", ("encode", "--tokenizer", "run/tokenizer", "-o", "shards")),
        ("encode", ("encode", "--tokenizer", "run/tokenizer", "-o", "shuffled", "--shuffle")),
        ("encode", ("encode", "--tokenizer", "run/tokenizer", "-o", "single", "--single")),
    ):
        error = refused(run(*words, name, *options, "--quiet"), 1)
        assert f"error: the corpus holds no text to {verb}: " in error, words
        assert reason in error
    python = {"errors": "skip"} if options else {}
    for output in ({}, {"output": "python"}):
        with pytest.raises(InputError, match="the corpus holds no text to encode: "):
            bpe_pipeline.encode(name, tokenizer="run/tokenizer", **python, **output)
