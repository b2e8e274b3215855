"""Flushing to disk, and locks that a child of a fork finds free."""

from pathlib import Path

import pytest

from pipeline.base import system


def test_files_and_directories_are_flushed_and_missing_ones_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    system.flush(tmp_path / "a")
    system.flush(tmp_path)
    with pytest.raises(FileNotFoundError):
        system.flush(tmp_path / "b")
