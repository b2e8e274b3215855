"""The exit codes of `diff`, and its numbers, compared with encoding."""

import json
from pathlib import Path

from command import refused, run

import pipeline


def test_exit_codes_say_equal_different_and_failed(trained: Path, text: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    pipeline.load(trained).save(copy)
    same = run("diff", trained, copy, text)
    assert (same.returncode, same.stderr) == (0, "")
    assert "equal" in same.stdout
    pipeline.Tokenizer.from_merges(pipeline.load(trained).merges[:-5], ["<|endoftext|>"]).save(tmp_path / "less")
    other = run("diff", trained, tmp_path / "less")
    assert other.returncode == 1
    assert "5 only in A" in other.stdout
    assert "tokenizer.json" in refused(run("diff", trained, tmp_path / "none"), 3)
    assert "absent.txt" in refused(run("diff", trained, copy, tmp_path / "absent.txt"), 3)
    (copy / "tokenizer.json").write_text("{")
    assert "tokenizer.json" in refused(run("diff", trained, copy), 3)
    refused(run("diff", trained), 2)


def test_numbers_are_those_of_encoding(trained: Path, text: Path, tmp_path: Path) -> None:
    one = pipeline.load(trained)
    other = pipeline.Tokenizer.from_merges(one.merges[:100], ["<|endoftext|>"])
    other.save(tmp_path / "other")
    literal = "the lower<|endoftext|>"
    result = run("diff", trained, tmp_path / "other", text, "--text", literal, "--json")
    assert result.returncode == 1, result.stderr
    document = json.loads(result.stdout)
    assert not document["equal"]
    assert document["same_merges"] == 100
    assert len(document["tokens"]["only_in_first"]) == len(one.merges) - 100
    contents = (("--text", literal), (text.name, text.read_bytes().decode()))
    assert [(source["name"], source["bytes"], source["tokens"]) for source in document["texts"]] == [
        (name, len(own.encode()), [len(one.encode(own)), len(other.encode(own))]) for name, own in contents
    ]
    assert sum(len(cut["cuts"][1]) for cut in document["other_cuts"]) > 0


def test_without_texts_the_built_in_sentences_are_compared(trained: Path) -> None:
    result = run("diff", trained, trained, "--json")
    assert result.returncode == 0
    assert {"English", "Chinese", "Arabic"} <= {source["name"] for source in json.loads(result.stdout)["texts"]}
