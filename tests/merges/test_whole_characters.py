"""`--whole-characters`: no token holds a part of a character together with anything else."""

import json
from pathlib import Path

import pytest
from command import refused, run, succeeded
from recorded import recorded
from reference import whole_or_begun

import bpe_pipeline
from bpe_pipeline.merges.vocabulary import text_to_token

TEXT = "Über die Brücke führt ein Weg. На мосту стоят люди. 橋の上に人がいます。다리 위에 사람들이 있다. 🙂🙃🙂 " * 20


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "corpus.txt"


@pytest.mark.filterwarnings("ignore")  # of pre-tokens that the pattern would cut, of exhausted counters
def test_recorded_cases(tmp_path: Path) -> None:
    for path, case in recorded("vocabularies", "whole-*.json"):
        counter = {text_to_token(text): count for text, count in case["counter"].items()}
        counts = bpe_pipeline.combine(counter, output=tmp_path / path.stem, special_tokens=[], pattern="none")
        size = case["vocab_size"]
        tokenizer = bpe_pipeline.merge(counts, vocab_size=size, whole_characters=True)[size]
        assert tokenizer.merges == [(text_to_token(left), text_to_token(right)) for left, right, _ in case["merges"]]
        for probe in case["probes"]:
            assert tokenizer.encode(probe["text"]) == probe["ids"], path


def test_the_command_is_verified_and_keeps_to_its_rule(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    options = ["--vocab-size", 400, "--output", output, "--quiet"]
    succeeded(run("train", corpus, "--whole-characters", *options))
    succeeded(run("verify", output))
    tokenizer = bpe_pipeline.load(output)
    assert all(whole_or_begun(left + right) for left, right in tokenizer.merges)
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    other = refused(run("train", corpus, *options), 1)
    assert "its merging was done with --whole-characters True, not False" in other
    assert "`bpe-pipeline merge --overwrite`, which keeps the counts" in other  # merge has no --output
    succeeded(run("merge", output, "--vocab-size", 350, "--quiet"))
    by_hand = json.loads((output / "run.json").read_text())
    by_hand["merging"]["whole_characters"] = False
    (output / "run.json").write_text(json.dumps(by_hand))
    assert run("verify", output).returncode == 1


def test_a_tokenizer_is_extended_by_whole_characters(corpus: Path, tmp_path: Path) -> None:
    bpe_pipeline.Tokenizer.from_merges([(b"\xbc", b"r")]).save(
        tmp_path / "base"
    )  # the end of a character, and a letter
    succeeded(run("count", corpus, "--like", tmp_path / "base", "--output", tmp_path / "run"))
    extended = [tmp_path / "base", tmp_path / "run", "--add", 150, "--whole-characters", "--output", tmp_path / "more"]
    succeeded(run("extend", *extended))
    succeeded(run("verify", tmp_path / "more"))
    first, *new = bpe_pipeline.load(tmp_path / "more").merges
    assert first == (b"\xbc", b"r")
    assert len(new) > 90
    assert all(whole_or_begun(left + right) for left, right in new)
