"""What `info` prints, compared with the libraries that read the same files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from command import refused, run, run_here, succeeded

import bpe_pipeline

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def shards(trained: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("shards") / "shards"
    succeeded(run("encode", text, "--tokenizer", trained, "--output", output))
    return output


def _facts(path: Path) -> dict:
    facts: dict = json.loads(succeeded(run("info", path, "--json")).stdout)
    return facts


def test_info_of_a_tokenizer_agrees_with_tokenizers(text: Path, tmp_path: Path) -> None:
    names = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|endoftext|>"]
    specials = [word for name in names for word in ("--special-token", name)]
    options = ["--pattern", "llama3", "--chat-template", "llama3", "--pad-token", "<pad>", *specials]
    succeeded(run("train", text, "--output", tmp_path / "run", "--vocab-size", 500, *options))
    home = tmp_path / "run" / "tokenizer"
    facts = _facts(home)
    theirs = tokenizers.Tokenizer.from_file(str(home / "tokenizer.json"))
    assert facts["size"] == theirs.get_vocab_size()
    assert set(facts["special_tokens"]) == {*names, "<pad>"}
    assert all(theirs.token_to_id(name) == number for name, number in facts["special_tokens"].items())
    config = json.loads((home / "tokenizer_config.json").read_text())
    assert all(facts[role] == config[role] for role in ("bos_token", "eos_token", "pad_token"))
    assert (facts["pattern"], facts["chat_template"]) == ("llama3", "llama3")
    assert facts["files"] == {path.name: path.stat().st_size for path in home.iterdir() if path.name != "README.md"}
    shown = run("info", home).stdout
    assert all(f"{name} (id {number})" in shown for name, number in facts["special_tokens"].items())


def test_info_of_a_run_in_python_and_as_the_command_prints_it(trained: Path, shards: Path) -> None:
    for path in (trained, trained / "tokenizer", shards):
        info = bpe_pipeline.info(path)
        assert repr(info) == run_here("info", path).stdout.rstrip("\n")
        assert json.loads(json.dumps(info.to_json())) == _facts(path)
    facts = _facts(trained)
    assert facts["corpus"].startswith("1 file, ")
    assert facts["counted"] == "completely"
    assert facts["options"]["pattern"] == "gpt2"
    assert facts["tokenizers"] == [_facts(trained / "tokenizer")]
    assert "\n\ntokenizer " in run("info", trained).stdout


def test_info_of_what_is_unfinished_and_of_anything_else(text: Path, shards: Path, tmp_path: Path) -> None:
    succeeded(run("count", text, "--output", tmp_path / "run", "--chunk-size", "16KiB"))
    parts = len(list((tmp_path / "run" / "counts").iterdir()))
    (tmp_path / "run" / "counter.parquet").unlink()
    next((tmp_path / "run" / "counts").glob("000000-*.parquet")).unlink()
    assert _facts(tmp_path / "run")["counted"] == f"{parts - 1} of {parts} chunks"
    unfinished = shutil.copytree(shards, tmp_path / "shards")
    (unfinished / "shards.json").unlink()
    assert "0 of " in _facts(unfinished)["encoded"]
    assert "tokenizer.json" in refused(run("info", tmp_path), 1)


def test_info_of_shards_agrees_with_numpy_and_with_the_tokenizer(shards: Path, trained: Path) -> None:
    facts = _facts(shards)
    ids = np.concatenate([np.load(shards / name) for name in facts["files"]])
    assert facts["tokens"] == len(ids)
    assert facts["documents"] == int((ids == facts["special_tokens"]["<|endoftext|>"]).sum())
    assert facts["vocab_size"] == len(bpe_pipeline.Tokenizer.load(trained / "tokenizer").vocab)
    assert facts["tokenizer"] == _facts(trained / "tokenizer")["fingerprint"]
    assert "npy of uint16" in run("info", shards).stdout
