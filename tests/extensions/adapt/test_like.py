"""`--like` a tokenizer whose added tokens have flags: what is counted, trained and extended, and what encoding says."""

import json
from pathlib import Path

import counter_files
import numpy as np
import pytest
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError

END, THINK, PAD, WORDS = "<|endoftext|>", "<think>", "<|pad|>", "low lower"
FLAGS = {THINK: {"special": False}, WORDS: {"special": False, "single_word": True}, PAD: {"lstrip": True}}
PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a tokenizer whose ids are bytes, with added tokens."""
    Tokenizer.from_merges([], [END, *FLAGS]).save(tmp_path / "base")
    file = tmp_path / "base/tokenizer.json"
    document = json.loads(file.read_text())
    for entry in document["added_tokens"]:
        entry |= FLAGS.get(entry["content"], {})
    file.write_text(json.dumps(document))
    return tmp_path / "base"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    document = f"{THINK}slow lowest low{END}"
    (tmp_path / "a.txt").write_text(document * 20)
    return tmp_path / "a.txt"


def test_counts_are_of_the_pre_tokens_and_documents_of_the_tokenizer(base: Path, text: Path, tmp_path: Path) -> None:
    done = succeeded(run("count", text, "--like", base, "--output", tmp_path / "run"))
    assert "20 documents" in done.stdout
    counts = counter_files.read(tmp_path / "run" / "counter.parquet")
    assert counts == dict.fromkeys([b"slow", b" low", b" lowest"], 20)


def test_a_flagged_token_stops_counting_and_can_be_text(base: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"slow  {PAD}{END}low")
    words = ["count", tmp_path / "a.txt", "--like", base, "--output", tmp_path / "run"]
    reason = refused(run(*words), 1)
    assert "a.txt, byte 6: the text contains the token '<|pad|>', which is flagged lstrip" in reason
    assert "with --special-tokens-as-text (not with --like), use a tokenizer without them" in reason
    flagged = {"added_tokens": {PAD: {"special": True, "lstrip": True}}, "split_at": END}
    with pytest.raises(InputError, match=r"byte 6: the text contains the token '<\|pad\|>'"):
        bpe_pipeline.count(tmp_path / "a.txt", output=tmp_path / "other", **flagged)
    bpe_pipeline.count(tmp_path / "a.txt", output=tmp_path / "text", special_tokens_as_text=True, **flagged)
    assert b"pad" in counter_files.read(tmp_path / "text" / "counter.parquet")


def test_a_vocabulary_of_its_own_keeps_the_flags(base: Path, text: Path, tmp_path: Path) -> None:
    succeeded(run("train", text, "--like", base, "--output", tmp_path / "run", "--vocab-size", 270))
    document = json.loads((tmp_path / "run/tokenizer/tokenizer.json").read_text())
    found = {one["content"]: {name: one[name] for name in PLAIN} for one in document["added_tokens"]}
    assert found == {mark: PLAIN | FLAGS.get(mark, {}) for mark in (END, *FLAGS)}
    succeeded(run("merge", tmp_path / "run", "--vocab-size", 266))
    assert Tokenizer.load(tmp_path / "run/tokenizer-266").model.preparation.rule_of(WORDS).single_word


def test_a_run_that_was_counted_without_the_rules_is_not_extended(base: Path, text: Path, tmp_path: Path) -> None:
    marks = [word for mark in (END, *FLAGS) for word in ("--special-token", mark)]
    succeeded(run("count", text, "--no-special-tokens", *marks, "--output", tmp_path / "run"))
    reason = refused(run("extend", base, tmp_path / "run", "--add", 3, "--output", tmp_path / "new"), 1)
    assert "finds the added token '<|pad|>' by other rules" in reason
    assert "count the corpus with --like" in reason
    succeeded(run("count", text, "--like", base, "--output", tmp_path / "run", "--overwrite"))
    succeeded(run("extend", base, tmp_path / "run", "--add", 3, "--output", tmp_path / "new"))


def test_encoding_takes_no_token_for_a_separator_that_is_not_special(tmp_path: Path) -> None:
    Tokenizer.from_merges([], [END, THINK]).save(tmp_path / "base")
    file = tmp_path / "base/tokenizer.json"
    for special in (True, False):
        document = json.loads(file.read_text())
        document["added_tokens"][1]["special"] = special
        file.write_text(json.dumps(document))
        (tmp_path / "a.txt").write_text(f"{THINK}a{THINK}b" * 9 + END)
        done = run("encode", tmp_path / "a.txt", "--tokenizer", tmp_path / "base", "--output", tmp_path / f"o{special}")
        assert ("name what separates this corpus with --separator" in done.stderr) is special
    (tmp_path / "b.txt").write_bytes(f"a{THINK}b".encode() + b"\xff" + f"{END}c{THINK}d".encode())
    words = ["--tokenizer", tmp_path / "base", "--errors", "skip", "--output", tmp_path / "s"]
    succeeded(run("encode", tmp_path / "b.txt", *words))
    [shard] = (tmp_path / "s").glob("*.npy")
    assert np.load(shard).tolist() == [66, 257, 67, 256]


def test_a_run_is_not_resumed_with_other_rules(base: Path, text: Path, tmp_path: Path) -> None:
    words = ["count", text, "--output", tmp_path / "run"]
    marks = [word for mark in (PAD,) for word in ("--special-token", mark)]
    succeeded(run(*words, "--like", base))
    assert "was done with --added-token" in refused(run(*words, *marks), 1)
    succeeded(run(*words, "--like", base))
