"""The exit codes and the output of `doctor`."""

import json
from pathlib import Path

import pytest
from command import refused, run, succeeded

from pipeline.guests.inspect.doctor import doctor_command


def test_exit_codes_and_json(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(succeeded(run("doctor", trained, "--json")).stdout)
    assert document["wrong"] == 0
    found = {(one["outcome"], one["what"]) for one in document["findings"]}
    assert {("fine", "files"), ("fine", "tokens"), ("fine", "round trip"), ("fine", "runtimes")} <= found
    assert [one["what"] for one in document["findings"] if one["outcome"] == "advice"] == ["special tokens"]  # no pad
    assert doctor_command(trained, [], None, strict=True, as_json=False) == 1  # as `--strict` calls it
    assert capsys.readouterr().out.count("remedy: ") == 1
    (tmp_path / "tokenizer.json").write_text("{}")
    assert run("doctor", tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("tokenizer.json", '{"version": "1.0", "model": {"type": "WordPiece"}, "decoder": null}', "WordPiece"),
        ("tokenizer.json", '{"version": "1.0", "model": {"type": "Unigram"}, "decoder": null}', "Unigram"),
        ("tokenizer.json", '{"version": "1.0", "model": {"type": "BPE"}, "decoder": null}', "decoder is null"),
        ("tokenizer.json", '{"version', "not valid JSON"),
        ("vocab.txt", "[UNK]\n", "a WordPiece vocabulary"),
        ("tokenizer.model", "x", "a SentencePiece model"),
        ("model.gguf", "GGUF", "a GGUF file"),
        ("ranks.tiktoken", "IQ== 0", "a tiktoken rank file"),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_tokenizer_of_another_kind_is_one_finding(
    name: str, content: str, named: str, whole: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(content)
    path = tmp_path if whole else tmp_path / name
    assert doctor_command(path, [], None, strict=False, as_json=False) == 1
    finding, remedy = capsys.readouterr().out.splitlines()
    assert finding.startswith("wrong:")
    assert named in finding
    assert "byte-level BPE" in remedy


def test_superwords_are_looked_for_in_their_own_counts(tmp_path: Path, trained: Path) -> None:
    corpus, home = tmp_path / "corpus.txt", tmp_path / "run"
    corpus.write_text("at the end of the day, at the end of the year. " * 50)
    asked = ["--pattern", "superbpe", "--vocab-size", 290, "--superwords-from", 270, "--output", home, "--quiet"]
    succeeded(run("train", corpus, *asked))
    found = json.loads(run("doctor", home, "--json").stdout)["findings"]
    [said] = [one["message"] for one in found if "never occur" in one["message"]]
    assert said.startswith("0 tokens")
    assert "superwords;" in said
    assert "were not cut as the tokenizer cuts" in run("doctor", trained, "--counts", home).stdout


def test_nothing_to_examine_is_an_error(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text")
    succeeded(run("count", tmp_path / "a.txt", "--output", tmp_path / "run"))
    assert "does not exist" in refused(run("doctor", tmp_path / "nowhere"), 1)
    assert "has no tokenizer yet: bpe-pipeline merge" in refused(run("doctor", tmp_path / "run"), 1)
    assert "run.json" in refused(run("doctor", trained, "--counts", tmp_path), 1)
