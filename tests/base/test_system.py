"""Flushing to disk, locks that a child of a fork finds free, and a limit of memory."""

import os
import sys
from pathlib import Path

import pytest

from bpe_pipeline.base import system


def test_files_and_directories_are_flushed_and_missing_ones_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    system.flush(tmp_path / "a")
    system.flush(tmp_path)
    with pytest.raises(FileNotFoundError):
        system.flush(tmp_path / "b")


@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_child_of_a_fork_finds_the_lock_free() -> None:
    lock = system.process_lock()
    with lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if lock.acquire(blocking=False) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits what a process maps")
def test_memory_beyond_the_limit_is_an_error_within_the_block_alone() -> None:
    with pytest.raises(MemoryError), system.limited_growth(8 << 20):
        bytearray(256 << 20)
    with system.limited_growth(None):
        assert len(bytearray(64 << 20)) == 64 << 20
