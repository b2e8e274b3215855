"""What Windows lacks has a second way, forced here on POSIX; the locks of Windows are the one thing that is not run."""

import os
from pathlib import Path

import pytest
from command import files_in, run_process, script, succeeded

from pipeline.base import system


@pytest.mark.parametrize("portable", [False, True])
def test_reading_at_a_position_and_flushing(tmp_path: Path, monkeypatch, portable: bool) -> None:
    monkeypatch.setattr(system, "PORTABLE", portable)
    (tmp_path / "a").write_bytes(b"0123456789")
    with (tmp_path / "a").open("rb", buffering=0) as file:
        file.seek(7)
        assert system.read_at(file.fileno(), 2, 3) == b"234"
        assert system.read_at(file.fileno(), 9, 3) == b"9"
        assert file.tell() == 7
    system.flush(tmp_path / "a")
    system.flush(tmp_path)
    with pytest.raises(FileNotFoundError):
        system.flush(tmp_path / "b")


def test_second_lock_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    system.lock(first)
    with pytest.raises(OSError, match=r"\w"):
        system.lock(second)
    os.close(first)
    system.lock(second)
    os.close(second)


def test_portable_run_writes_the_same_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("the low lower newest<|endoftext|>widest " * 200)
    for name, extra in (("posix", {}), ("portable", {"BPE_PIPELINE_PORTABLE": "1"})):
        options = ["--output", tmp_path / name, "--vocab-size", 300, "--workers", 2, "--chunk-size", "1KiB", "--quiet"]
        succeeded(run_process("train", tmp_path / "corpus.txt", *options, env=extra))
    first, second = (files_in(tmp_path / way / "tokenizer") for way in ("posix", "portable"))
    assert "tokenizer.json" in first
    assert first == second


def test_import_needs_no_posix_module() -> None:
    """As on Windows, where these modules do not exist; Ray's tasks, which do not run there, aside."""
    absent = (
        "import psutil, subprocess, sys; sys.modules |= dict.fromkeys(('fcntl', 'resource', 'termios', 'pwd', 'grp'))"
    )
    modules = "pipeline.commands.train, pipeline.commands.encode, pipeline.executors.local, pipeline.cli"
    assert script(f"{absent}; import {modules}; print('ok')") == "ok\n"
