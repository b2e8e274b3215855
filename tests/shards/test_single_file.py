"""`encode --single`: one file of each split, `train.bin` and `val.bin`, in a directory of shards."""

import json
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import command
import pytest
from encoded import EOT, TOKENIZER, everything, expected
from peers import generated_text

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.shards import encode as shards
from bpe_pipeline.shards import manifest

OF_A_DIRECTORY = ["encoding.json", "log.txt", "shards.json"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text(EOT.join(generated_text(seed, 60) for seed in range(30)), newline="")
    return path


def names(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir() if path.name != ".lock")


@pytest.mark.parametrize("shard_format", ["bin", "npy", "parquet"])
def test_single_file_has_all_ids(text: Path, tmp_path: Path, shard_format: str) -> None:
    home = tmp_path / "home"
    options = {"shard_size": 100, "chunk_size": 2000, "shard_format": shard_format}
    encoded = bpe_pipeline.encode(text, TOKENIZER, home, single=True, **options)
    file = home / f"train.{shard_format}"
    assert [shard.name for shard in encoded.shards] == [file.name]
    assert names(home) == sorted([*OF_A_DIRECTORY, file.name])
    for path in (home, file):
        assert b"".join(bpe_pipeline.decode(path, TOKENIZER)) == text.read_bytes() + EOT.encode()
    if shard_format == "bin":
        assert memoryview(file.read_bytes()).cast("H").tolist() == expected(TOKENIZER, [text.read_bytes()])


def test_validation_is_a_file_next_to_it(text: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    options = {"shuffle": True, "val_fraction": 0.3, "documents": "offsets", "shard_format": "bin"}
    bpe_pipeline.encode(text, TOKENIZER, home, single=True, **options)
    both = [f"{name}{extension}" for name in ("train", "val") for extension in (".bin", ".documents.npy")]
    assert names(home) == sorted([*OF_A_DIRECTORY, *both])
    texts = [b"".join(bpe_pipeline.decode(home / one, TOKENIZER)).decode() for one in both[::2]]
    assert sorted("".join(texts).split(EOT)) == sorted((text.read_bytes().decode() + EOT).split(EOT))
    assert all(len(one) > 100 for one in texts)


def test_finished_file_is_kept_and_repaired(text: Path, tmp_path: Path) -> None:
    encode = partial(bpe_pipeline.encode, text, TOKENIZER, tmp_path / "home", single=True)
    encode()
    file = tmp_path / "home" / "train.npy"
    before, written = file.read_bytes(), file.stat().st_mtime_ns
    encode()
    assert file.stat().st_mtime_ns == written
    file.write_bytes(before[:-2] + b"xx")
    with pytest.warns(UserWarning, match=r"train\.npy is missing, or not what was written"):
        encode()
    assert file.read_bytes() == before
    assert names(tmp_path / "home") == [*OF_A_DIRECTORY, "train.npy"]


@pytest.mark.parametrize("options", [{}, {"val_fraction": 0.5, "documents": "offsets"}], ids=["train", "validation"])
def test_kill_when_the_files_are_complete_costs_no_encoding(text: Path, tmp_path: Path, options) -> None:
    encode = partial(bpe_pipeline.encode, text, TOKENIZER, workers=1, single=True, **options)
    whole = encode(tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest, "write_result", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            encode(tmp_path / "killed")
    with pytest.MonkeyPatch.context() as patched:
        again = Mock(side_effect=AssertionError("encoded again"))
        patched.setattr("bpe_pipeline.shards.encoding_tasks.make_ids", again)
        assert encode(tmp_path / "killed") == whole
    assert everything(tmp_path / "killed") == everything(tmp_path / "whole")


@pytest.mark.parametrize("order", [{}, {"shuffle": True}], ids=["in order", "shuffled"])
@pytest.mark.parametrize("again", [{}, {"overwrite": True, "documents": "offsets"}], ids=["same", "overwritten"])
def test_no_file_has_its_name_until_it_is_complete(text: Path, tmp_path: Path, order, again) -> None:
    home = tmp_path / "home"
    encode = partial(bpe_pipeline.encode, text, TOKENIZER, home, chunk_size=1000, single=True, **order)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shards, "named_shards", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            encode()
    assert [name for name in names(home) if not name.startswith(".")] == ["encoding.json", "journal", "log.txt"]
    encode(**again)
    assert names(home) == [*OF_A_DIRECTORY, *(["train.documents.npy"] if again else []), "train.npy"]


def test_a_file_of_something_else_is_replaced_only_when_asked(text: Path, tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    (home / "train.npy").write_bytes(b"somebody's")
    (home / "mine.txt").write_bytes(b"somebody's")
    with pytest.raises(RunDirectoryError, match=r"train\.npy"):
        bpe_pipeline.encode(text, TOKENIZER, home, single=True)
    assert (home / "train.npy").read_bytes() == b"somebody's"
    bpe_pipeline.encode(text, TOKENIZER, home, single=True, overwrite=True)
    assert names(home) == sorted([*OF_A_DIRECTORY, "mine.txt", "train.npy"])


def test_other_options_are_refused_and_overwriting_leaves_no_file_of_before(text: Path, tmp_path: Path) -> None:
    """Whose validation would be trained on."""
    home = tmp_path / "home"
    encode = partial(bpe_pipeline.encode, text, TOKENIZER, home)
    encode(shuffle=True, val_fraction=0.3, documents="offsets", single=True)
    for options in ({"single": True}, {"shuffle": True, "val_fraction": 0.3, "documents": "offsets"}):
        with pytest.raises(RunDirectoryError, match="holds another run"):
            encode(**options)
    encode(overwrite=True, single=True)
    assert names(home) == [*OF_A_DIRECTORY, "train.npy"]


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("train.bin", {}, r"train\.bin names a file: give its directory with --single --shard-format bin"),
        ("a.b.npy", {}, r"a\.b\.npy names a file: .* which writes train\.npy there, and val\.npy with --val-fraction"),
        ("home", {"single": True, "shard_format": "arrow"}, "--single: a shard of arrow is not one file: choose"),
        ("home", {"single": True, "sequence_length": 9, "position_ids": True}, "no place for them"),
        ("home", {"single": True, "pack": "best-fit"}, "give --sequence-length"),
    ],
)
def test_what_cannot_be_a_single_file_is_refused(text: Path, tmp_path: Path, name: str, options, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        bpe_pipeline.encode(text, TOKENIZER, tmp_path / name, **options)
    assert names(tmp_path) == ["a.txt"]


def test_command_makes_one_file_of_each_split(text: Path, tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "t")
    words: list[Any] = ["encode", text, "--tokenizer", tmp_path / "t", "--output", tmp_path / "home", "--workers", 2]
    words += ["--single", "--shard-format", "bin", "--shuffle", "--seed", 3, "--val-fraction", "0.2", "--log-json"]
    command.succeeded(command.run(*words))
    described = json.loads((tmp_path / "home" / "shards.json").read_text())
    assert [shard["name"] for shard in described["shards"]] == ["train.bin", "val.bin"]
    assert "bin of uint16" in command.run("info", tmp_path / "home" / "train.bin").stdout
