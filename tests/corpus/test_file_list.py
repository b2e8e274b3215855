"""Lists of inputs in files: what a line is, and that they are read as INPUTs in their place."""

from pathlib import Path

import pytest
from command import refused, run, succeeded

import bpe_pipeline
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.file_list import read_list
from bpe_pipeline.run import manifest


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b [1].txt", "two\nlines.txt", "d/x.txt", "d/y.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"low lower {name} ")
    return tmp_path


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"a.txt\nb [1].txt\n", ["a.txt", "b [1].txt"]),
        (b"a.txt\n\n  \nd", ["a.txt", "d"]),
        (b"two\nlines.txt\0a.txt\0", ["two\nlines.txt", "a.txt"]),
        (b"# no comment\n", ["# no comment"]),
    ],
)
def test_a_name_is_a_line_or_ends_with_nul(tmp_path: Path, content: bytes, names: list[str]) -> None:
    (tmp_path / "list").write_bytes(content)
    assert read_list(tmp_path / "list") == names


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "names no files"),
        (b"\n \n\0", "names no files"),
        (b"\xef\xbb\xbfa.txt", "is no list of paths"),
    ],
)
def test_what_is_no_list_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "list").write_bytes(content)
    with pytest.raises(InputError, match=reason):
        read_list(tmp_path / "list")


def test_names_of_a_list_follow_the_inputs_in_their_order(corpus: Path) -> None:
    (corpus / "list").write_text("b [1].txt\nd/*.txt\na.txt\n")
    options = ["--output", "run", "--vocab-size", "300", "--temperature", "inf"]
    succeeded(run("train", "two\nlines.txt", "--files-from", "list", *options))
    plan, texts = (stored := manifest.require(corpus / "run").manifest).plan, stored.texts
    inputs = [text.name for text in texts]
    assert inputs == ["two\nlines.txt", "b [1].txt", "d/*.txt", "a.txt"]
    names = ["two\nlines.txt", "b [1].txt", "d/x.txt", "d/y.txt", "a.txt"]
    assert [file.path for file in plan.files] == [str(corpus / name) for name in names]
    listed = bpe_pipeline.train(inputs, output="other", vocab_size=300, temperature="inf")
    assert listed.merges == bpe_pipeline.Tokenizer.load("run").merges
    again = run("train", *inputs, *options)  # the same run
    assert "counting kept, merging kept" in again.stdout, again.stderr


def test_standard_input_may_be_the_list(corpus: Path) -> None:
    succeeded(run("count", "--files-from", "-", "--output", "run", stdin=b"a.txt\0two\nlines.txt\0"))
    assert len(manifest.require(corpus / "run").manifest.plan.files) == 2


def test_encode_and_configuration_files_take_a_list(corpus: Path) -> None:
    (corpus / "list").write_text("a.txt\nd\n")
    (corpus / "run.yaml").write_text("files_from: list\nvocab_size: 300\n")
    succeeded(run("train", "--config", "run.yaml", "--output", "run"))
    succeeded(run("encode", "--files-from", "list", "--tokenizer", "run", "--output", "shards"))
    assert bpe_pipeline.info("shards")["documents"] == 3
    (corpus / "files").write_text("a.txt\nd/x.txt")
    assert len(run("encode", "--files-from", "files", "--tokenizer", "run").stdout.splitlines()) == 2
    assert "d/z.txt does not exist" in refused(run("count", "d/z.txt", "--files-from", "list", "--output", "c"), 1)
