"""Merging as a stage of a run: killed and continued, under a limit that its words do not fit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chunk_tasks import random_words

import pipeline
from pipeline.run import manifest


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of half a million different pieces, merged without a limit."""
    run = tmp_path_factory.mktemp("counted") / "run"
    words = random_words(9, 5_000_000).split(b" ")
    pipeline.import_counts({b" " + word: 1 + len(word) % 7 for word in words if word}, output=run)
    pipeline.merge_run(run, vocab_size=6000)
    return run


def begin(run: Path) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-P", "-m", "pipeline", "merge", str(run), "--vocab-size=6000", "--memory-limit=140MiB"]
    environment = {**os.environ, "BPE_PIPELINE_CHECKPOINT_S": "0"}
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment)


def test_killed_merging_continues_from_its_last_phase(counted: Path) -> None:
    expected = (counted / "merges.parquet").read_bytes()
    so_far, chance = counted / manifest.MERGES_SO_FAR, random.Random(3)
    (counted / "merges.parquet").unlink()
    for _ in range(3):
        process, before = begin(counted), so_far.stat().st_mtime_ns if so_far.exists() else 0
        while process.poll() is None and not (so_far.exists() and so_far.stat().st_mtime_ns != before):
            time.sleep(0.02)
        time.sleep(chance.random() / 50)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert so_far.exists(), "it ended before it could be killed"
    _, told = begin(counted).communicate()
    assert "kept from before" in told
    assert (counted / "merges.parquet").read_bytes() == expected
    assert not so_far.exists()
    assert not list(counted.glob(".*part*"))


def test_damaged_checkpoint_is_not_used(counted: Path) -> None:
    expected = (counted / "merges.parquet").read_bytes()
    (counted / "merges.parquet").unlink()
    (counted / manifest.MERGES_SO_FAR).write_bytes(expected[:-100])
    _, told = begin(counted).communicate()
    assert "kept from before" not in told
    assert (counted / "merges.parquet").read_bytes() == expected
    assert not (counted / manifest.MERGES_SO_FAR).exists()
