"""Vocabularies in which some bytes have no token: the ids of `tokenizers`, and what commands say."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import FULL
from command import refused, run, succeeded
from foreign_files import agree, theirs_of
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from published import (
    DEEPSEEK,
    EOT,
    HARD,
    byte_level,
    isolated,
)
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers

import bpe_pipeline
from bpe_pipeline import Tokenizer
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.extensions.inspect.doctor import examine
from bpe_pipeline.extensions.inspect.findings import ADVICE, WRONG


def without_alphabet(text: str, pre_tokenizer: Any, **of_model: Any) -> HuggingFaceTokenizer:
    """Train as a course does that names no alphabet to start from: bytes that the text lacks have no token."""
    theirs = HuggingFaceTokenizer(models.BPE(**of_model))
    theirs.pre_tokenizer, theirs.decoder = pre_tokenizer, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=["<unk>", EOT], show_progress=False)
    theirs.train_from_iterator([text], trainer)
    return theirs


LACKING = st.lists(st.one_of(st.sampled_from(["<unk>", EOT, "ab", "low "]), st.text("abé Z世", max_size=9)), max_size=9)


@settings(max_examples=4_000 if FULL else 60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.text("abé low", min_size=9, max_size=60),
    st.sampled_from(["gpt2", "deepseek", "none"]),
    st.sampled_from([None, "<unk>"]),
    st.booleans(),
    st.booleans(),
    st.lists(LACKING.map("".join), max_size=9),
)
@example("abababab low low", "none", None, False, False, ["ab low aZb lZow ab low", "ab low " + "aZb" * 99])  # in parts
@example("éééé éé ééé low", "none", None, False, False, ["é世é" * 99])  # where a long pre-token might be cut
@example("abababab low low", "none", "<unk>", True, False, ["ab low aZb lZZow ab low"])
def test_bytes_without_a_token_become_what_tokenizers_makes_of_them(
    trained: str, cut: str, unk: str | None, fuse: bool, whole: bool, texts: list[str]
) -> None:
    stages = {"gpt2": [byte_level(use_regex=True)], "none": [byte_level()]}
    stage = pre_tokenizers.Sequence(stages.get(cut) or [*isolated(*DEEPSEEK), byte_level()])
    theirs = without_alphabet(trained, stage, unk_token=unk, fuse_unk=fuse, ignore_merges=whole)
    with tempfile.TemporaryDirectory() as home:
        theirs.save(f"{home}/tokenizer.json")
        ours = Tokenizer.load(home)
        expected = [one.ids for one in theirs.encode_batch(texts)]
        assert ours.encode_batch(texts) == [ours.encode(text) for text in texts] == expected
        assert [ours.count_tokens(text) for text in texts] == [*map(len, expected)]
        assert [[*ours.encode_iterable([text])] for text in texts] == expected
        ours.save(f"{home}/again")
        agree(theirs, Tokenizer.load(f"{home}/again"), *texts)
        agree(theirs_of(Path(home, "again")), ours, *texts)


@pytest.mark.parametrize(("unk", "said"), [(None, "is left out"), ("<unk>", "becomes '<unk>'")])
def test_commands_take_a_vocabulary_that_lacks_bytes(unk: str | None, said: str, tmp_path: Path) -> None:
    theirs = without_alphabet("the low slow lower lowest ab ab " * 9, byte_level(use_regex=True), unk_token=unk)
    theirs.save(str(tmp_path / "tokenizer.json"))
    text = "the quick lowest\nslow lows, slow lows and slow lows\n" * 3
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": EOT}))
    encoded = run("encode", tmp_path / "a.txt", "--tokenizer", tmp_path, "-o", tmp_path / "shards")
    assert f"{said}, as in tokenizers" in succeeded(encoded).stderr
    rows = [int(one) for one in np.load(next((tmp_path / "shards").glob("*.npy")))]
    assert rows[:-1] == theirs.encode(text).ids
    succeeded(run("count", tmp_path / "a.txt", "--like", tmp_path, "-o", tmp_path / "counts"))
    grown = bpe_pipeline.extend(tmp_path, tmp_path / "counts", add=2, output=tmp_path / "grown")
    assert grown.before == len(rows) - 1
    pruned = bpe_pipeline.prune(tmp_path, tmp_path / "counts", keep=22, output=tmp_path / "pruned")
    for home, changed in ((tmp_path / "grown", grown), (tmp_path / "pruned", pruned)):
        assert len(theirs_of(home).encode(text).ids) == changed.after
        agree(theirs_of(home), changed.tokenizer, text, *HARD)
    found = {one.outcome: one.because for one in examine(tmp_path, [text], None) if "no token stands" in one.because}
    assert said in found[ADVICE]
    assert not [one for one in examine(tmp_path, [text], None) if one.outcome == WRONG]


def test_only_a_text_is_refused_whose_bytes_no_library_encodes(tmp_path: Path) -> None:
    theirs = without_alphabet("a low ab", byte_level(use_regex=True), unk_token="[UNK]")
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path)
    agree(theirs, ours, "low ab")
    with pytest.raises(Exception, match="not found in the vocabulary"):
        theirs.encode("low Z")
    with pytest.raises(InputError, match="no token stands for the byte 0x5A"):
        ours.encode("low Z")
    (tmp_path / "a.txt").write_text("low Z")
    said = refused(run("encode", tmp_path / "a.txt", "--tokenizer", tmp_path, "-o", tmp_path / "shards"), 1)
    assert "no token stands for the byte 0x5A" in said
