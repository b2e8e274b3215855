"""What a command removes with --overwrite: never a file of the corpus, whatever links lead to it."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.base.errors import RunDirectoryError

SHARD = "shard-00000.parquet"


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    text = tmp_path / "text.txt"
    text.write_text("low lower lowest " * 20)
    pipeline.train(text, output=tmp_path / "run", vocab_size=260, workers=1)
    return tmp_path / "run" / "tokenizer"


def _corpus(directory: Path, name: str) -> Path:
    """Write a corpus of one readable file, under the name that a shard or a part would have."""
    file = directory / name
    file.parent.mkdir(parents=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.table({"text": ["low lower lowest"]}), file)
    else:
        file.write_text("low lower lowest")
    return file


def _link_to_directory(tmp_path: Path, corpus: Path, _file: Path) -> tuple[Path, Path]:
    link = tmp_path / "link"
    link.symlink_to(corpus)
    return corpus, link


def _corpus_through_link(tmp_path: Path, corpus: Path, _file: Path) -> tuple[Path, Path]:
    link = tmp_path / "link"
    link.symlink_to(corpus)
    return link, corpus


def _link_to_file(tmp_path: Path, corpus: Path, file: Path) -> tuple[Path, Path]:
    link = tmp_path / "elsewhere" / file.name
    link.parent.mkdir()
    link.symlink_to(file)
    return link, corpus


def _itself(_tmp_path: Path, corpus: Path, _file: Path) -> tuple[Path, Path]:
    return corpus, corpus


@pytest.mark.parametrize("arrange", [_link_to_directory, _corpus_through_link, _link_to_file, _itself])
@pytest.mark.parametrize("name", [SHARD, "parts/a.txt", "parts/000000.ids/a.txt"])
def test_encode_never_removes_the_corpus(tmp_path: Path, tokenizer: Path, arrange, name: str) -> None:
    corpus = tmp_path / "corpus"
    file = _corpus(corpus, name)
    kept = tmp_path / "kept"
    shutil.copytree(corpus, kept)
    inputs, output = arrange(tmp_path, corpus, file)
    with pytest.raises(RunDirectoryError, match="part of the corpus"):
        pipeline.encode_corpus(inputs, tokenizer, output, shard_format="parquet", overwrite=True, workers=1)
    assert {path.relative_to(corpus) for path in corpus.rglob("*")} == {
        path.relative_to(kept) for path in kept.rglob("*")
    }
    assert file.read_bytes() == (kept / name).read_bytes()


@pytest.mark.parametrize("arrange", [_link_to_directory, _corpus_through_link, _link_to_file, _itself])
@pytest.mark.parametrize("name", ["merges.parquet", "counts/a.txt", "tokenizer-300/a.txt"])
def test_train_never_removes_the_corpus(tmp_path: Path, arrange, name: str) -> None:
    corpus = tmp_path / "corpus"
    file = _corpus(corpus, name)
    before = file.read_bytes()
    inputs, output = arrange(tmp_path, corpus, file)
    with pytest.raises(RunDirectoryError, match="part of the corpus"):
        pipeline.train(inputs, output=output, vocab_size=260, overwrite=True, workers=1)
    assert file.read_bytes() == before
    assert [path for path in corpus.rglob("*") if path.is_file()] == [file]
