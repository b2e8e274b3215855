"""Merging as a stage of a run: killed and continued, under a limit that its words do not fit."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chunk_tasks import random_words
from killing import kill, require_clean

import pipeline
from pipeline.run.files import MERGES_SO_FAR

SIZE = 3000
LIMIT = "126MiB"  # the words are on disk


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two hundred thousand different pieces, merged without a limit."""
    run = tmp_path_factory.mktemp("counted") / "run"
    words = random_words(9, 2_000_000).split(b" ")
    pipeline.import_counts({b" " + word: 1 + len(word) % 7 for word in words if word}, output=run)
    pipeline.merge_run(run, vocab_size=SIZE)
    return run


class Merging:
    """The command at work in a run directory, read as far as the start of its merging."""

    def __init__(self, run: Path, limit: str) -> None:
        argv = [sys.executable, "-P", "-m", "pipeline", "merge", str(run), f"--vocab-size={SIZE}", "--log-json"]
        argv += ["--workers=1", f"--memory-limit={limit}"]
        environment = {**os.environ, "BPE_PIPELINE_CHECKPOINT_S": "0"}
        self.process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=environment
        )
        starts = (event["done"] for event in self._events() if event["event"] == "stage_started")
        self.known = next(starts)

    def _events(self) -> Iterator[dict[str, object]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            assert event["event"] != "error", line
            yield event

    def finish(self) -> int:
        """Read to the end; return the exit status."""
        with self.process:
            for _ in self._events():
                pass
        return self.process.returncode


def _unmerged(counted: Path, run: Path) -> Path:
    """A copy of the run without its merges."""
    shutil.copytree(counted, run)
    (run / "merges.parquet").unlink()
    return run


def _require_merged(run: Path, counted: Path) -> None:
    assert (run / "merges.parquet").read_bytes() == (counted / "merges.parquet").read_bytes()
    assert not (run / MERGES_SO_FAR).exists()
    require_clean(run)


def test_killed_merging_continues_from_its_last_phase(counted: Path, tmp_path: Path) -> None:
    run = _unmerged(counted, tmp_path / "run")
    merging = Merging(run, LIMIT)
    while not (run / MERGES_SO_FAR).exists():
        assert merging.process.poll() is None
        time.sleep(0.002)
    kill(merging.process.pid, "all", random.Random(1))
    assert merging.finish() == -signal.SIGKILL
    merging = Merging(run, LIMIT)
    assert 0 < merging.known < SIZE
    assert merging.finish() == 0
    _require_merged(run, counted)


def test_damaged_checkpoint_is_not_used(counted: Path, tmp_path: Path) -> None:
    run = _unmerged(counted, tmp_path / "run")
    (run / MERGES_SO_FAR).write_bytes((counted / "merges.parquet").read_bytes()[:-100])
    merging = Merging(run, LIMIT)
    assert (merging.known, merging.finish()) == (0, 0)
    _require_merged(run, counted)
