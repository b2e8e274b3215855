"""Tokens that are added and not special: in counts, ids, files of others, and configuration."""

import json
import random
from pathlib import Path

import pytest
from command import refused, run, succeeded
from tokenizers import Tokenizer as HuggingFace
from transformers import AutoTokenizer

import bpe_pipeline
from bpe_pipeline.base.errors import UsageError

FRAC, THINK, SPACES, EOT = "\\frac", "<think>", "    ", "<|endoftext|>"
ADDED = [FRAC, THINK, SPACES]
PARTS = [*ADDED, EOT, "low", " lower", "\\", "frac", "<", "think", ">", " ", "  ", "é", "7", "\n"]


def corpus(tmp_path: Path) -> Path:
    source = random.Random(4)
    text = "".join(source.choices(PARTS, k=4000))
    (tmp_path / "a.txt").write_text(text)
    return tmp_path / "a.txt"


def test_added_tokens_have_the_ids_that_tokenizers_and_transformers_give(tmp_path: Path) -> None:
    ours = bpe_pipeline.train(corpus(tmp_path), output=tmp_path / "run", vocab_size=300, added_tokens=ADDED)
    home = tmp_path / "run" / "tokenizer"
    theirs, class_ = HuggingFace.from_file(str(home / "tokenizer.json")), AutoTokenizer.from_pretrained(home)
    source = random.Random(5)
    for _ in range(300):
        text = "".join(source.choices(PARTS, k=source.randint(1, 12)))
        assert ours.encode(text) == theirs.encode(text).ids == class_(text)["input_ids"]
        assert ours.decode(ours.encode(text), skip_special_tokens=True) == text.replace(EOT, "")
        assert class_.decode(ours.encode(text), skip_special_tokens=True) == text.replace(EOT, "")
    assert class_.all_special_tokens == [EOT]


def test_added_tokens_come_behind_the_merges_before_reserved_ones_and_count_in_the_size(tmp_path: Path) -> None:
    words = ["--vocab-size", 300, "--round-vocab-to", 64, "--reserve-tokens", "2:<|lab_{}|>"]
    added = [word for text in ADDED for word in ("--added-token", text)]
    succeeded(run("train", corpus(tmp_path), "--output", tmp_path / "run", *words, *added))
    ours = bpe_pipeline.load(tmp_path / "run")
    assert ours.vocab_size == 320
    first, *others = ours.special_tokens.items()
    assert [text for text, _ in [first, *others]][:6] == [EOT, *ADDED, "<|lab_0|>", "<|lab_1|>"]
    assert [id_ for _, id_ in others] == list(range(first[1] + 1, 320))


@pytest.mark.parametrize("command", ["export", "extend"])
def test_reserved_tokens_with_names_of_their_own_are_used_up_first(tmp_path: Path, command: str) -> None:
    """The model has rows for them. A token that was named is none of them, whatever it looks like."""
    base, new = tmp_path / "run", ["<|new_0|>", "<|new_1|>"]
    reserving = {"added_special_tokens": ["<|lab_7|>"], "reserve_tokens": "1:<|lab_{}|>"}
    bpe_pipeline.merge(bpe_pipeline.combine({"low": 5}, output=base), vocab_size=262, **reserving)
    before = bpe_pipeline.load(base).special_tokens
    assert list(before) == [EOT, "<|lab_7|>", "<|lab_0|>"]
    words = ["export", base, "--export", "hf"] if command == "export" else ["extend", base, base, "--add", 0]
    added = [word for text in new for word in ("--special-token", text)]
    done = succeeded(run(*words, *added, "--output", tmp_path / "new"))
    assert f"'<|new_0|>' is {before['<|lab_0|>']}, which was '<|lab_0|>'" in done.stdout + done.stderr
    after = bpe_pipeline.load(tmp_path / "new").special_tokens
    assert after == {EOT: before[EOT], "<|lab_7|>": before["<|lab_7|>"], "<|new_0|>": before["<|lab_0|>"]} | {
        "<|new_1|>": before["<|lab_0|>"] + 1
    }


def test_flags_are_those_of_added_token(tmp_path: Path) -> None:
    flags = {THINK: {"lstrip": True, "rstrip": True}, "<tool>": {"special": True}}
    entries = [{"content": text, **given} for text, given in flags.items()]
    (tmp_path / "run.json").write_text(json.dumps({"added_tokens": entries, "vocab_size": 300}))
    text = corpus(tmp_path)
    text.write_text(text.read_text().replace(THINK, ""))
    by_mapping = bpe_pipeline.train(text, output=tmp_path / "one", vocab_size=300, added_tokens=flags)
    succeeded(run("train", tmp_path / "a.txt", "--config", tmp_path / "run.json", "--output", tmp_path / "two"))
    for home in ("one", "two"):
        document = json.loads((tmp_path / home / "tokenizer" / "tokenizer.json").read_text())
        think, tool = (next(one for one in document["added_tokens"] if one["content"] == text) for text in flags)
        assert (think["lstrip"], think["rstrip"], think["special"], tool["special"]) == (True, True, False, True)
    assert by_mapping.encode(f"low {THINK} low") == bpe_pipeline.load(tmp_path / "two").encode(f"low {THINK} low")


def test_a_tokenizer_like_another_gets_more_added_tokens(tmp_path: Path) -> None:
    bpe_pipeline.train(corpus(tmp_path), output=tmp_path / "base", vocab_size=300, added_tokens=[FRAC])
    like = ["--like", tmp_path / "base" / "tokenizer", "--added-token", THINK, "--vocab-size", 290]
    succeeded(run("train", tmp_path / "a.txt", *like, "--output", tmp_path / "run"))
    assert list(bpe_pipeline.load(tmp_path / "run").special_tokens) == [EOT, FRAC, THINK]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (
            [{"content": THINK, "singleword": True}],
            "true or false for lstrip, rstrip, single_word, normalized, special",
        ),
        ({THINK: {"lstrip": 1}}, "true or false for lstrip"),
        ([THINK, THINK], "is given twice"),
        (7, "texts, or entries"),
        ({THINK: True}, "texts, or entries"),
    ],
)
def test_what_is_no_added_token_is_refused(tmp_path: Path, given: object, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        bpe_pipeline.train(corpus(tmp_path), output=tmp_path / "run", vocab_size=300, added_tokens=given)


@pytest.mark.parametrize("given", ["3:lab", "3:{}{}", "x:<{}>", "-1"])
def test_names_of_reserved_tokens_have_one_place_for_a_number(tmp_path: Path, given: str) -> None:
    words = ["--output", tmp_path / "run", "--vocab-size", 300]
    assert "--reserve-tokens" in refused(run("train", corpus(tmp_path), *words, "--reserve-tokens", given), 2)
