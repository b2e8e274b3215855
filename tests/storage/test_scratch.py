"""What dead processes left is removed, and nothing else."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from bpe_pipeline.storage import atomic, scratch


def test_zombie_process_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process of a container may wait late for a killed worker, or never."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with subprocess.Popen(["sleep", "100"]) as process:
        left = tmp_path / f"x.{scratch.process_namespace()}-{process.pid}.partial"
        left.mkdir()
        scratch.sweep()
        assert left.exists()
        process.kill()
        deadline = time.monotonic() + 20
        while left.exists():
            assert time.monotonic() < deadline
            scratch.sweep()


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
def test_what_dead_processes_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make) -> None:
    """It is named for its process, and where that runs: two nodes may have processes with the same id."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mark, earlier = scratch.process_namespace(), f"{scratch.process_namespace()[:8]}12345678"  # boot, or container
    dead = 2**22 + 1  # beyond the largest process id
    kept = [f"{mark}-{os.getpid()}", f"{'0' * 16}-{dead}", mark, f"{mark}-²", f"{earlier}-1", "elsewhere-1"]
    for one in (*kept, f"{mark}-{dead}", f"{earlier}-2"):
        make(tmp_path / f".x.{one}.partial")
    os.utime(tmp_path / f".x.{earlier}-2.partial", (1e9, 1e9))  # before the last boot
    scratch.sweep_once.cache_clear()
    with scratch.scratch_directory() as made, atomic.whole_file(tmp_path / "z") as partial_file:
        partial_file.write_text("x")
        assert partial_file.name == f".z.{mark}-{os.getpid()}.partial"
        left = {path.name for path in tmp_path.iterdir()} - {made.name, partial_file.name}
    assert left == {f".x.{one}.partial" for one in kept}
