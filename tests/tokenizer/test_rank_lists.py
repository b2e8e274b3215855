"""Rank files and tekken.json: the ids of `tiktoken`, or a refusal."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import samples
from command import refused, run, succeeded
from foreign_files import agree, encoding, ranks, theirs_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from published import (
    BOS,
    DEEPSEEK,
    EOT,
    HARD,
)

from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.pattern.presets import PRESETS
from bpe_pipeline.tokenizer.formats import rank_lists
from bpe_pipeline.tokenizer.formats.rank_lists import read_ranks


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "o200k", "qwen2", DEEPSEEK[2] + r"|[\s\S]"])
def test_rank_files_have_the_ids_of_tiktoken(pattern: str, tmp_path: Path) -> None:
    path = ranks(tmp_path, pattern)
    specials = {BOS: 500, EOT: 501}
    expression = PRESETS[pattern].expression if pattern in PRESETS else pattern
    theirs = encoding(path, expression, specials)
    for spelled in {pattern, expression}:
        ours = Tokenizer.from_tiktoken_file(path, pattern=spelled, special_tokens=specials)
        for text in HARD:
            assert ours.encode(text) == theirs.encode(text, allowed_special="all")
            assert ours.encode_ordinary(text) == theirs.encode_ordinary(text)


def test_rank_file_is_exported_for_hugging_face(tmp_path: Path) -> None:
    path = ranks(tmp_path, "", [a + b for a, b in samples.trained("llama3")] + [b"lowest", b" \n x"])
    ours = Tokenizer.from_tiktoken_file(path, pattern="llama3", special_tokens={BOS: 500})
    ours.save(tmp_path)
    texts = [*HARD, "lowest lowests lowest"]
    agree(theirs_of(tmp_path), ours, *texts)
    core = encoding(path, PRESETS["llama3"].expression, {BOS: 500})
    assert [core.encode(text, allowed_special="all") for text in texts] == [ours.encode(text) for text in texts]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tokens=st.lists(st.text("ab", min_size=2, max_size=6), unique=True, max_size=14).flatmap(st.permutations),
    texts=st.lists(st.text("ab c", max_size=40), min_size=1, max_size=6),
)
def test_any_ranks_have_the_ids_of_tiktoken(tokens: list[str], texts: list[str], tmp_path: Path) -> None:
    path = ranks(tmp_path, "", [token.encode() for token in tokens])
    theirs, ours = encoding(path, r"\S+|\s", {}), Tokenizer.from_tiktoken_file(path, pattern=r"\S+|\s")
    for text in [*texts, *(text * 30 for text in texts)]:
        assert ours.encode(text) == theirs.encode(text)


DAMAGED = {
    b"IQ== 0\nIQ== 1\n": "both stand for",
    b"IQ==\n": "line 1 is not a token",
    b"I 0\n": "line 1 is not a token",
    b"IQ== -1\n": "no new whole number",
    b"IQ== 0\nIg== 5000000000\n": "line 2 has the rank 5000000000, above 268435455",
    b"IQ== 0\n": "no token stands for the byte",
    base64.b64encode(b"a" * 20_000) + b" 0\n": "the token of rank 0 has more than",
}


@pytest.mark.parametrize(("content", "reason"), DAMAGED.items(), ids=DAMAGED.values())
def test_damaged_rank_file_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        Tokenizer.from_tiktoken_file(path, pattern="gpt2")


def test_missing_rank_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        Tokenizer.from_tiktoken_file(tmp_path / "x.tiktoken", pattern="gpt2")


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rank file whose content is listed with pattern, normal form, roles and special tokens."""
    file = ranks(tmp_path, "qwen2")
    special = {"500": [BOS, ["<extra {}>", 3, 5]], "600": [EOT]}
    entry = {"pattern": "qwen2", "nfc": True, "roles": {"bos": BOS, "eos": EOT}, "special_tokens": special}
    monkeypatch.setattr(rank_lists, "_known", lambda: {hashlib.sha256(file.read_bytes()).hexdigest(): entry})
    return file


@pytest.mark.parametrize("name", ["tokenizer.model", "x.tiktoken"])
def test_known_rank_file_needs_no_pattern(known: Path, name: str) -> None:
    theirs = encoding(known, PRESETS["qwen2"].expression, {BOS: 500, "<extra 3>": 501, "<extra 4>": 502, EOT: 600})
    home = known.parent / "home"
    home.mkdir()
    (home / name).write_bytes(known.read_bytes())
    for path in (home, home / name):
        ours = Tokenizer.load(path)
        assert (ours.bos_token_id, ours.eos_token_id) == (500, 600)
        for text in HARD:
            assert ours.encode(text) == theirs.encode(nfc(text), allowed_special="all")


def test_directory_with_two_rank_files_is_refused(known: Path) -> None:
    known.with_name("second.tiktoken").write_bytes(known.read_bytes())
    with pytest.raises(InputError, match=r"of second.tiktoken, x.tiktoken name one"):
        Tokenizer.load(known.parent)


def test_unknown_rank_file_is_refused_with_the_ways_to_read_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of those known here: `bpe-pipeline export .*from_tiktoken_file"):
        Tokenizer.load(ranks(tmp_path, "qwen2"))


def test_export_makes_a_tokenizer_of_a_rank_file(tmp_path: Path) -> None:
    file = ranks(tmp_path, "qwen2")
    words = ("export", file, "--pattern", "qwen2", "--output", tmp_path / "made")
    first = len(read_ranks(file))
    assert f"name them in order of ids, from {first} on" in refused(run(*words), 2)
    succeeded(run(*words, "--special-token", BOS, "--special-token", EOT))
    made, theirs = Tokenizer.load(tmp_path / "made"), encoding(file, PRESETS["qwen2"].expression, {})
    assert made.special_tokens == {BOS: first, EOT: first + 1}
    assert [made.encode_ordinary(text) for text in HARD] == [theirs.encode_ordinary(text) for text in HARD]


TEKKEN_PATTERN = r"\p{N}|[^\s\p{N}]+|\s+(?!\S)|\s+"
OWN_NAMES = [{"rank": 0, "token_str": BOS}, {"rank": 1, "token_str": "</s>"}]


def tekken(home: Path, **changed: Any) -> tuple[Path, Path]:
    """Write tekken.json with 30 special tokens, and a rank file without the last 20 ranks, which it leaves out."""
    file = ranks(home, "o200k")
    lines = file.read_bytes().splitlines(keepends=True)
    vocab = [{"rank": rank, "token_bytes": line.split()[0].decode()} for rank, line in enumerate(lines)]
    config = {"pattern": TEKKEN_PATTERN, "default_vocab_size": len(vocab) + 10, "default_num_special_tokens": 30}
    document = {"config": config | changed.pop("config", {}), "vocab": changed.pop("first", []) + vocab, **changed}
    document["vocab"] = document["vocab"][: len(vocab)]
    (home / "tekken.json").write_text(json.dumps(document))
    file.write_bytes(b"".join(lines[:-20]))
    return home / "tekken.json", file


@pytest.mark.parametrize(("named", "first"), [({"special_tokens": OWN_NAMES}, BOS), ({}, "<unk>")])
def test_tekken_has_the_ids_of_tiktoken(named: dict[str, Any], first: str, tmp_path: Path) -> None:
    path, file = tekken(tmp_path, **named)
    ours, theirs = Tokenizer.load(path), encoding(file, TEKKEN_PATTERN, {})
    for text in HARD:
        assert ours.encode_ordinary(text) == [id_ + 30 for id_ in theirs.encode_ordinary(text)]
    assert ours.vocab_size == len(read_ranks(file)) + 30
    assert (ours.special_tokens[first], ours.special_tokens["<SPECIAL_29>"]) == (0, 29)
    assert ours.id_to_token(ours.eos_token_id or 0) == "</s>"


DAMAGED_TEKKEN: dict[str, dict[str, Any]] = {
    "asks for 10,000 ids": {"config": {"default_vocab_size": 10_000}},
    "config.pattern": {"config": {"pattern": 5}},
    "no token_bytes": {"first": [{"rank": 0}]},
    "has the rank 1, not 0": {"first": [{"rank": 1, "token_bytes": "IQ=="}]},
}


@pytest.mark.parametrize(("reason", "changed"), DAMAGED_TEKKEN.items(), ids=DAMAGED_TEKKEN)
def test_damaged_tekken_is_refused(reason: str, changed: dict[str, Any], tmp_path: Path) -> None:
    path, _ = tekken(tmp_path, **changed)
    with pytest.raises(InputError, match=reason):
        Tokenizer.load(path)


def test_special_tokens_of_which_one_begins_the_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'<a' begins '<a>'"):
        Tokenizer.from_tiktoken_file(ranks(tmp_path, "gpt2"), pattern="gpt2", special_tokens={"<a>": 500, "<a": 501})


@pytest.mark.parametrize("specials", [{"<a>": 300.0}, {"<a>": True}, {5: 300}])
def test_special_tokens_that_are_no_texts_with_ids_are_refused(specials: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give texts with whole numbers"):
        Tokenizer.from_tiktoken_file(ranks(tmp_path, "gpt2"), pattern="gpt2", special_tokens=specials)


def test_pattern_that_leaves_text_is_refused_for_a_rank_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not match every text"):
        Tokenizer.from_tiktoken_file(ranks(tmp_path, "gpt2"), pattern=r"\p{L}+")
