"""Pipes, sockets, devices and directories are neither written to nor replaced."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from command import run_here

import bpe_pipeline
from bpe_pipeline.base.errors import PipelineError


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))  # a short name


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


SPECIAL = pytest.mark.parametrize("make", [os.mkfifo, _socket, _device, Path.mkdir])


@SPECIAL
def test_outputs_are_regular_files(tmp_path: Path, monkeypatch, make: Callable[[Path], None]) -> None:
    monkeypatch.chdir(tmp_path)
    where, link = tmp_path / "special.html", tmp_path / "link.html"
    make(where)
    link.symlink_to(where)
    before = where.lstat()
    counted = bpe_pipeline.combine({"low": 5, "lower": 2}, output=tmp_path / "run")
    bpe_pipeline.merge(counted, vocab_size=258)
    for path in (where, link):
        assert "is not a regular file" in run_here("report", counted, "--output", path, "--overwrite").stderr
        if not where.is_dir():
            with pytest.raises(PipelineError, match=r"cannot be made|not a directory"):
                bpe_pipeline.train([__file__], output=path, vocab_size=300)
    assert os.path.samestat(where.lstat(), before)
    assert link.is_symlink()


@SPECIAL
@pytest.mark.parametrize("name", ["tokenizer.json", "log.txt", "merges.parquet"])
def test_what_is_no_file_is_not_replaced_in_a_directory(tmp_path: Path, monkeypatch, make, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    before = (tmp_path / name).lstat()
    commands = {
        "tokenizer.json": lambda: bpe_pipeline.Tokenizer.from_merges([(b"a", b"b")]).save(tmp_path),
        "log.txt": lambda: bpe_pipeline.combine({"a": 1}, output=tmp_path, overwrite=True),
        "merges.parquet": lambda: bpe_pipeline.train([__file__], output=tmp_path, vocab_size=300, overwrite=True),
    }
    with pytest.raises(PipelineError, match=rf"{name} (is not a regular file|cannot be|is damaged)"):
        commands[name]()
    assert os.path.samestat((tmp_path / name).lstat(), before)
