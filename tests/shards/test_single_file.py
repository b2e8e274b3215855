"""`--output train.bin`: a single file, with its manifest next to it, and nothing else left."""

import json
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import command
import pytest
from command import files_in
from encoded import EOT, TOKENIZER, everything, expected
from peers import generated_text

import bpe_pipeline
from bpe_pipeline.base.errors import InputError, RunDirectoryError, UsageError
from bpe_pipeline.shards import encode as shards
from bpe_pipeline.shards import manifest


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text(EOT.join(generated_text(seed, 60) for seed in range(30)), newline="")
    return path


def names(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir())


@pytest.mark.parametrize("extension", ["bin", "npy", "parquet"])
def test_single_file_has_all_ids(text: Path, tmp_path: Path, extension: str) -> None:
    file = (home := tmp_path / "home") / f"train.{extension}"
    encoded = bpe_pipeline.encode(text, TOKENIZER, file, shard_size=100, chunk_size=2000)
    assert encoded.format == extension
    assert [shard.name for shard in encoded.shards] == [file.name]
    assert names(home) == [file.name, f"{file.name}.json"]
    assert b"".join(bpe_pipeline.decode(file, TOKENIZER)) == text.read_bytes() + EOT.encode()
    if extension == "bin":
        assert memoryview(file.read_bytes()).cast("H").tolist() == expected(TOKENIZER, [text.read_bytes()])


def test_validation_of_a_single_file_is_next_to_it(text: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for stem, other in {"train": "val", "corpus": "corpus.val"}.items():
        file = home / f"{stem}.bin"
        bpe_pipeline.encode(text, TOKENIZER, file, shuffle=True, val_fraction=0.3, documents="offsets")
        both = [f"{name}{extension}" for name in (stem, other) for extension in (".bin", ".documents.npy")]
        assert names(home) == sorted([*both, f"{file.name}.json"])
        texts = [b"".join(bpe_pipeline.decode(home / one, TOKENIZER)).decode() for one in both[::2]]
        assert sorted("".join(texts).split(EOT)) == sorted((text.read_bytes().decode() + EOT).split(EOT))
        assert all(len(one) > 100 for one in texts)
        for path in home.iterdir():
            path.unlink()


def test_finished_file_is_kept_and_repaired(text: Path, tmp_path: Path) -> None:
    file = tmp_path / "train.bin"
    bpe_pipeline.encode(text, TOKENIZER, file)
    before, written = file.read_bytes(), file.stat().st_mtime_ns
    bpe_pipeline.encode(text, TOKENIZER, file)
    assert file.stat().st_mtime_ns == written
    file.write_bytes(before[:-2] + b"xx")
    with pytest.warns(UserWarning, match=r"train\.bin is missing, or not what was written"):
        bpe_pipeline.encode(text, TOKENIZER, file)
    assert file.read_bytes() == before
    assert names(tmp_path) == ["a.txt", "train.bin", "train.bin.json"]


@pytest.mark.parametrize("step", ["write_result", "remove_working_directory"])
@pytest.mark.parametrize("options", [{}, {"val_fraction": 0.5, "documents": "offsets"}], ids=["train", "validation"])
def test_kill_when_the_files_are_complete_costs_no_encoding(text: Path, tmp_path: Path, options, step: str) -> None:
    home = tmp_path / "home"
    encode = partial(bpe_pipeline.encode, text, TOKENIZER, home / "train.bin", workers=1, **options)
    whole, before = encode(), everything(home)
    for path in home.iterdir():
        path.unlink()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest, step, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            encode()
    assert before.items() - {("train.bin.json", before["train.bin.json"])} <= files_in(home).items()
    with pytest.MonkeyPatch.context() as patched:
        again = Mock(side_effect=AssertionError("encoded again"))
        patched.setattr("bpe_pipeline.shards.encoding_tasks.make_ids", again)
        assert encode() == whole
    assert everything(home) == before


@pytest.mark.parametrize("order", [{}, {"shuffle": True}], ids=["in order", "shuffled"])
@pytest.mark.parametrize("again", [{}, {"overwrite": True, "documents": "offsets"}], ids=["same", "overwritten"])
def test_only_a_hidden_name_is_there_until_the_file_is_complete(text: Path, tmp_path: Path, order, again) -> None:
    home = tmp_path / "home"
    encode = partial(bpe_pipeline.encode, text, TOKENIZER, home / "train.bin", chunk_size=1000, **order)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shards, "named_shards", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            encode()
    assert names(home) == [".train.bin.working"]
    encode(**again)
    assert names(home) == ["train.bin", "train.bin.json", *(["train.documents.npy"] if again else [])]


def test_files_that_are_made_in_one_directory_at_once_do_not_see_each_other(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one name starts as another does."""
    (home := tmp_path / "home").mkdir()
    files = ["train.bin", "train.bin.bin", ".train.bin", "train.npy"]
    encode, publish = partial(bpe_pipeline.encode, text, TOKENIZER), shards.named_shards
    left = iter(files[1:])

    def publish_after_the_others(*own: Any) -> Any:
        if (name := next(left, None)) is not None:
            encode(home / name)
        return publish(*own)

    monkeypatch.setattr(shards, "named_shards", publish_after_the_others)
    encode(home / files[0])
    assert names(home) == sorted([*files, *(f"{name}.json" for name in files)])
    assert len({(home / name).read_bytes() for name in files[:3]}) == 1


def test_a_file_of_something_else_is_replaced_only_when_asked(text: Path, tmp_path: Path) -> None:
    file = tmp_path / "train.bin"
    file.write_bytes(b"somebody's")
    with pytest.raises(RunDirectoryError, match=r"train\.bin exists and is of something else.*--overwrite"):
        bpe_pipeline.encode(text, TOKENIZER, file)
    assert names(tmp_path) == ["a.txt", "train.bin"]
    bpe_pipeline.encode(text, TOKENIZER, file, overwrite=True)
    assert names(tmp_path) == ["a.txt", "train.bin", "train.bin.json"]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_overwriting_leaves_no_file_of_the_one_before(text: Path, tmp_path: Path, *, is_damaged: bool) -> None:
    """Whose validation would be trained on; what a damaged manifest lists cannot be trusted."""
    (home := tmp_path / "home").mkdir()
    (home / "mine.bin").write_bytes(b"somebody's")
    encode = partial(bpe_pipeline.encode, text, TOKENIZER, home / "train.bin")
    encode(shuffle=True, val_fraction=0.3, documents="offsets")
    if is_damaged:
        (home / "train.bin.json").write_text("{}")
    encode(overwrite=True)
    left = ["train.documents.npy", "val.bin", "val.documents.npy"] if is_damaged else []
    assert names(home) == sorted(["mine.bin", "train.bin", "train.bin.json", *left])


def test_a_file_of_other_options_or_another_corpus_is_refused(text: Path, tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    file, other = home / "train.bin", tmp_path / "b.txt"
    other.write_text("another corpus")
    bpe_pipeline.encode(text, TOKENIZER, file)
    with pytest.raises(RunDirectoryError, match=r"bin holds another run: .* without --val-fraction, not with 0\.1"):
        bpe_pipeline.encode(text, TOKENIZER, file, val_fraction=0.1)
    with pytest.raises(RunDirectoryError, match=r"train\.bin exists and is of another corpus.*--overwrite"):
        bpe_pipeline.encode(other, TOKENIZER, file)
    assert names(home) == ["train.bin", "train.bin.json"]


def test_a_damaged_manifest_of_a_file_is_refused(text: Path, tmp_path: Path) -> None:
    file = tmp_path / "train.bin"
    bpe_pipeline.encode(text, TOKENIZER, file)
    (tmp_path / "train.bin.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read"):
        next(bpe_pipeline.decode(file, TOKENIZER))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shard_format": "arrow"}, "is a file of the format bin, not arrow"),
        ({"sequence_length": 9, "position_ids": True}, "no place for them"),
        ({"pack": "best-fit"}, "give --sequence-length"),
    ],
)
def test_options_that_the_format_of_the_file_cannot_keep_are_refused(text: Path, tmp_path: Path, options, reason):
    with pytest.raises(UsageError, match=reason):
        bpe_pipeline.encode(text, TOKENIZER, tmp_path / "train.bin", **options)
    assert names(tmp_path) == ["a.txt"]


@pytest.fixture
def words(text: Path, tmp_path: Path) -> list[Any]:
    TOKENIZER.save(tmp_path / "t")
    return ["encode", text, "--tokenizer", tmp_path / "t", "--output", tmp_path / "train.bin", "--workers", 2]


def test_command_makes_one_file_of_each_split(words: list[Any], tmp_path: Path) -> None:
    command.succeeded(command.run(*words, "--shuffle", "--seed", 3, "--val-fraction", "0.2", "--log-json"))
    described = json.loads((tmp_path / "train.bin.json").read_text())
    assert [shard["name"] for shard in described["shards"]] == ["train.bin", "val.bin"]
    assert "bin of uint16" in command.run("info", tmp_path / "train.bin").stdout


def test_info_says_how_far_an_unfinished_file_is(words: list[Any], text: Path, tmp_path: Path) -> None:
    text.write_bytes(b"x\xff")
    command.refused(command.run(*words, "--errors", "strict"), 1)
    assert "0 of 1 chunk; the same command resumes" in command.run("info", tmp_path / "train.bin").stdout


@pytest.mark.parametrize("name", [".train.bin.working", ".a.npy.working", "..x.parquet.working"])
def test_name_of_a_working_directory_is_no_output(text: Path, tmp_path: Path, name: str) -> None:
    """It would be removed, and the shards would be next to it."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n')
    TOKENIZER.save(tmp_path / "t")
    before = names(tmp_path)
    for words in (["encode", text], ["encode-chat", rows, "--template", "empty"]):
        line = command.refused(command.run(*words, "--tokenizer", tmp_path / "t", "--output", tmp_path / name), 2)
        assert f"name {tmp_path / name[1:].removesuffix('.working')}, or another directory" in line
    assert names(tmp_path) == before
