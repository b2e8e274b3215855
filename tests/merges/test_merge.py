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
from itertools import count, islice
from pathlib import Path

import pytest
from amount import FULL
from chunk_tasks import random_words
from killing import kill, require_clean

import pipeline
from pipeline.run import manifest

SIZE = 3000
LIMITS = ("126MiB", "130MiB", None)  # the words are on disk; fewer of them; all are in memory


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

    def __init__(self, run: Path, limit: str | None, workers: int = 1) -> None:
        argv = [sys.executable, "-P", "-m", "pipeline", "merge", str(run), f"--vocab-size={SIZE}", "--log-json"]
        argv += [f"--workers={workers}", *([f"--memory-limit={limit}"] if limit else [])]
        environment = {**os.environ, "BPE_PIPELINE_CHECKPOINT_S": "0"}
        self.process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=environment
        )
        starts = (event["done"] for event in self._events() if event["event"] == "stage_started")
        self.known = next(starts, SIZE)  # merging had ended, where no stage starts

    def _events(self) -> Iterator[dict[str, object]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            assert event["event"] != "error", line
            yield event

    def wait(self, events: int) -> None:
        """Return when that many more events were read, or all."""
        for _ in islice(self._events(), events):
            pass

    def finish(self) -> int:
        """Read to the end; return the exit status."""
        with self.process:
            self.wait(sys.maxsize)
        return self.process.returncode


def _unmerged(counted: Path, run: Path) -> Path:
    """A copy of the run without its merges."""
    shutil.copytree(counted, run)
    (run / "merges.parquet").unlink()
    return run


def _require_merged(run: Path, counted: Path) -> None:
    assert (run / "merges.parquet").read_bytes() == (counted / "merges.parquet").read_bytes()
    assert not (run / manifest.MERGES_SO_FAR).exists()
    require_clean(run)


def _kill_often(counted: Path, home: Path, kills: int, seed: int) -> list[int]:
    """Kill runs that many times, each until it ends; return the merges that each start knew."""
    choose = random.Random(seed)
    starts, killed = [], 0
    for number in count():
        if killed >= kills:
            return starts
        run, limit = _unmerged(counted, home / f"killed-{number}"), LIMITS[number % len(LIMITS)]
        known, status = 0, 1
        while status != 0:
            merging = Merging(run, limit, choose.choice([1, 2]))
            assert merging.known >= known, "merges were lost"
            known = merging.known
            starts.append(known)
            merging.wait(choose.randrange(12))
            time.sleep(choose.random() / 10)
            kill(merging.process.pid, choose.choice(["all", "coordinator", "worker"]), choose)
            status = merging.finish()
            assert status in (0, -signal.SIGKILL)
            killed += status != 0
        _require_merged(run, counted)
        shutil.rmtree(run)
    raise AssertionError


def test_killed_merging_continues_from_its_last_phase(counted: Path, tmp_path: Path) -> None:
    run = _unmerged(counted, tmp_path / "run")
    merging = Merging(run, LIMITS[0])
    while not (run / manifest.MERGES_SO_FAR).exists():
        assert merging.process.poll() is None
        time.sleep(0.002)
    kill(merging.process.pid, "all", random.Random(1))
    assert merging.finish() == -signal.SIGKILL
    merging = Merging(run, LIMITS[0])
    assert 0 < merging.known < SIZE
    assert merging.finish() == 0
    _require_merged(run, counted)


@pytest.mark.slow
def test_merging_killed_at_hundreds_of_moments_continues(counted: Path, tmp_path: Path) -> None:
    kills = 300 if FULL else 12
    starts = _kill_often(counted, tmp_path, kills, seed=int(os.environ.get("BPE_PIPELINE_SEED", "2")))
    assert len(set(starts)) > kills / 10


def test_damaged_checkpoint_is_not_used(counted: Path, tmp_path: Path) -> None:
    run = _unmerged(counted, tmp_path / "run")
    (run / manifest.MERGES_SO_FAR).write_bytes((counted / "merges.parquet").read_bytes()[:-100])
    merging = Merging(run, LIMITS[0])
    assert (merging.known, merging.finish()) == (0, 0)
    _require_merged(run, counted)
