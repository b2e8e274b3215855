"""Checkpoints inside a compressed file: a run killed at any change of a file resumes there and gives the same bytes."""

import gc
import gzip
import json
import lzma
import random
import sys

import pyarrow as pa
import pytest
from amount import KILLS
from chunk_tasks import chunk_task
from killing import KillAt, ended, require_clean, start
from peers import generated_text

from pipeline import _core
from pipeline.counts.count_worker import count_chunk

END = "<|endoftext|>"
WORDS = " ".join(generated_text(seed, 2000) for seed in range(6)).split(" ")


def text(form, size=3_200_000):
    """Documents, some of them invalid, as text or as records, some of which are none."""
    random_ = random.Random(form)
    out, filled = [], 0
    while filled < size:
        words = " ".join(random_.choices(WORDS, k=4000)) + f" {random_.random()}"
        document = words.encode() + (b"\xff\xe2\x82 " if random_.random() < 0.1 else b"")
        if form == "jsonl":
            document = json.dumps({"text": words} if random_.random() < 0.9 else {"other": 1}).encode()
        filled += len(document)
        out.append(document)
    return {"jsonl": b"\n", "lines": b"\n", "txt": END.encode(), "one": b" "}[form].join(out)


CASES = {
    "jsonl": ("a.jsonl.gz", gzip.compress, ()),
    "txt": ("a.txt.zst", lambda data: pa.compress(data, "zstd", asbytes=True), ("--memory-limit", "140MiB")),
    "one": ("a.txt.xz", lambda data: lzma.compress(data, preset=0), ()),
    "lines": ("a.txt.gz", gzip.compress, ("--input-format", "lines", "--special-tokens-as-text")),
}


class Counted:
    def __init__(self, form, home):
        name, compress, self.options = CASES[form]
        self.file = home / name
        self.file.write_bytes(compress(text(form)))
        assert self.count(home / "whole") == 0
        self.results = results(home / "whole")

    def count(self, output, interval_s=0.0, **environment):
        words = [sys.executable, "-P", "-m", "pipeline", "count", str(self.file), "--output", str(output), "--quiet"]
        environment["BPE_PIPELINE_CHECKPOINT_S"] = str(interval_s)
        return ended(start([*words, *self.options, "--workers", "1"], None, **environment))


def results(run):
    report = json.loads((run / "report.json").read_text().replace(str(run), "RUN"))
    left_out = ("stages", "peak_memory_bytes", "stage_peak_bytes", "retries")
    counters = {path.name: path.read_bytes() for path in (*run.glob("counter.parquet"), *run.glob("counts/*.parquet"))}
    return counters, {name: value for name, value in report.items() if name not in left_out}


@pytest.fixture(scope="module", params=CASES)
def counted(request, tmp_path_factory):
    return Counted(request.param, tmp_path_factory.mktemp("counted"))


@pytest.mark.parametrize("counted", ["jsonl", "txt"], indirect=True)
def test_checkpoints_change_nothing(counted, tmp_path):
    assert counted.count(tmp_path / "run", interval_s=1000) == 0
    assert results(tmp_path / "run") == counted.results
    assert "resuming at" not in (tmp_path / "run" / "log.txt").read_text()


def kill_often(counted, library, home, runs):
    """Kill runs at changes spread over the middle half of them; how many of them resumed inside the file."""
    first = KillAt(library, home / "counter")
    assert counted.count(home / "counted", **first.environment(home / "counted", 0)) == 0
    resumed = 0
    for number in range(runs):
        output, killer = home / f"run-{number}", KillAt(library, home / f"counter-{number}")
        at = 1 + round(first.changes * (0.25 + 0.5 * (number + 0.5) / runs))
        counted.count(output, **killer.environment(output, at))
        assert counted.count(output) == 0
        assert results(output) == counted.results
        require_clean(output)
        resumed += "resuming at byte" in (output / "log.txt").read_text()
    return resumed


@pytest.mark.parametrize(
    ("counted", "runs"),
    [("jsonl", 1), *(pytest.param(form, 3, marks=pytest.mark.slow) for form in ("jsonl", "txt"))],
    indirect=["counted"],
)
def test_killed_at_changes_of_files(counted, library, tmp_path, runs):
    assert kill_often(counted, library, tmp_path, runs) >= 1


@pytest.mark.slow
@pytest.mark.one_of(2)
def test_killed_at_many_changes_of_files(counted, library, tmp_path):
    assert kill_often(counted, library, tmp_path, 4 * KILLS) >= KILLS


@pytest.mark.parametrize("counted", ["jsonl"], indirect=True)
def test_checkpoint_of_other_text_or_without_its_parts_is_none(counted, library, tmp_path):
    run = tmp_path / "run"
    killer = KillAt(library, tmp_path / "counter")
    for at in range(25, 200, 15):
        counted.count(run, **killer.environment(run, at))
        if found := list(run.glob("counts/.*.checkpoint.kept")):
            break
    [path] = found
    document = json.loads(path.read_text())
    [first, *_] = document["parts"]
    (path.parent / first).unlink()
    assert counted.count(run) == 0
    assert results(run) == counted.results
    assert "resuming at byte" not in (run / "log.txt").read_text()


def test_counter_is_freed_when_its_chunk_is_counted(tmp_path):
    """Its memory would otherwise stay beside that of the next chunk."""
    path = tmp_path / "a.txt"
    path.write_text("some words")
    gc.disable()
    try:
        count_chunk(chunk_task(path, tmp_path / "a.parquet", 64 << 20))
        assert not any(type(held) is _core.ChunkCounter for held in gc.get_objects())
    finally:
        gc.enable()
