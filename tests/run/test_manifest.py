"""The manifest of a run: which special tokens each tokenizer of it has."""

import json
from pathlib import Path

import pytest
from command import run

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.run import manifest
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

EOT = "<|endoftext|>"


def test_roles_are_no_part_of_what_was_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(EOT.join(["low lower lowest", "newest widest", "wide new"] * 9))
    plain = bpe_pipeline.train(tmp_path / "a.txt", output=tmp_path / "run", vocab_size=270)
    counted = (tmp_path / "run/counter.parquet").stat().st_mtime_ns
    roles = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": EOT}
    again = bpe_pipeline.merge(tmp_path / "run", overwrite=True, reserve_tokens=2, **roles)[270]
    assert (tmp_path / "run/counter.parquet").stat().st_mtime_ns == counted
    reserved = [f"<|reserved_special_token_{number}|>" for number in range(2)]
    assert list(again.special_tokens) == [EOT, "<s>", "</s>", *reserved]
    assert again.merges == plain.merges[:-4]
    merged = bpe_pipeline.merge(tmp_path / "run", vocab_size=265)[265]  # the run's own, where none are named
    assert list(merged.special_tokens) == list(again.special_tokens)
    document = json.loads((tmp_path / "run/run.json").read_text())
    assert "pad_token" not in document["counting"] | document["merging"]
    assert document["special"].keys() == {"tokenizer", "tokenizer-265"}
    loaded = Tokenizer.load(tmp_path / "run/tokenizer").model
    assert (loaded.bos_token, loaded.eos_token, loaded.pad_token, loaded.separator) == ("<s>", "</s>", EOT, EOT)
    assert "tokenizer-265" in bpe_pipeline.verify(tmp_path / "run")


def test_rounded_vocabulary_of_a_short_merge_list(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab ab ab")
    rounded = bpe_pipeline.train(tmp_path / "a.txt", output=tmp_path / "run", vocab_size=5000, round_vocab_to=64)
    assert rounded.vocab_size == 320
    assert rounded.special_tokens["<|reserved_special_token_0|>"] == rounded.special_tokens[EOT] + 1
    assert "320 tokens" in bpe_pipeline.verify(tmp_path / "run")["tokenizer"]


def test_what_is_no_manifest_of_a_run_is_an_error(tmp_path: Path) -> None:
    bpe_pipeline.train_from_iterator(["low lower"], vocab_size=260, output=tmp_path / "run")
    run = manifest.require(tmp_path / "run")
    run.manifest.special["tokenizer"] = {"reserve_tokens": -1}
    manifest.save(run)
    with pytest.raises(RunDirectoryError, match=r"run\.json is damaged \(option 'reserve_tokens'"):
        manifest.require(tmp_path / "run")
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match="is a sweep: name one of the runs in"):
        manifest.require(tmp_path)


@pytest.mark.parametrize("command", ["verify", "report", "merge"])
def test_directory_of_shards_is_not_called_a_directory_without_a_run(tmp_path: Path, command: str) -> None:
    tokenizer = bpe_pipeline.train_from_iterator(["low lower"], vocab_size=260, output=tmp_path / "run")
    (tmp_path / "a.txt").write_text("low lower")
    bpe_pipeline.encode(tmp_path / "a.txt", tokenizer, tmp_path / "shards", workers=1)
    result = run(command, tmp_path / "shards")
    assert result.returncode != 0
    assert "shards is a directory of shards: `bpe-pipeline info " in result.stderr
