"""The bounds of a dry run against the run: disk and memory, for every kind of input and a combination."""

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tasks_here
from command import refused, run, succeeded
from peers import generated_text

import bpe_pipeline
from bpe_pipeline.base.units import format_bytes, parse_bytes

DOCUMENTS = [generated_text(seed, 300) for seed in range(150)]
TEXT = "\n".join(DOCUMENTS)
JSONL = "\n".join(json.dumps({"number": number, "text": text}) for number, text in enumerate(DOCUMENTS))


def write_many(path):
    path.mkdir()
    for number, text in enumerate(DOCUMENTS):
        (path / f"{number}.txt").write_text(text)


KINDS = {
    "a.txt": lambda path: path.write_text(TEXT),
    "a.jsonl": lambda path: path.write_text(JSONL),
    "a.jsonl.zst": lambda path: path.write_bytes(pa.compress(JSONL.encode(), "zstd", asbytes=True)),
    "a.txt.gz": lambda path: path.write_bytes(gzip.compress(TEXT.encode())),
    "many": write_many,
    "a.parquet": lambda path: pq.write_table(pa.table({"text": DOCUMENTS}), path, row_group_size=40),
}


def at_most(said, text_bytes):
    if times := re.fullmatch(r"at most ([\d.]+) times the decompressed text for counters", said):
        return float(times[1]) * text_bytes
    return parse_bytes(re.search(r"at most ([\d.]+ [KMG]?i?B)", said)[1])


def planned(words):
    return dict(re.split("  +", line, maxsplit=1) for line in succeeded(run(*words, "--dry-run")).stdout.splitlines())


def in_processes(name):
    marks = [pytest.mark.processes] if name == "a.parquet" else [pytest.mark.processes, pytest.mark.slow]
    return pytest.param(name, marks=marks, id=f"{name} in processes")


@pytest.mark.parametrize("name", [*KINDS, *map(in_processes, KINDS)])
def test_bounds_hold(name, tmp_path):
    """Of memory, where processes have their own."""
    path, output = tmp_path / name, tmp_path / "run"
    KINDS[name](path)
    words = ["train", path, "--output", output, "--vocab-size", 400, "--chunk-size", "100KB", "--workers", 2]
    plan = planned(words)
    assert not output.exists()
    succeeded(run(*words, "--quiet"))
    report = json.loads((output / "report.json").read_text())
    counters = [*output.glob("counts/*.parquet"), output / "counter.parquet"]
    text_bytes = sum(len(text.encode()) for text in DOCUMENTS)
    assert sum(counter.stat().st_size for counter in counters) <= at_most(plan["disk"], text_bytes)
    for stage in () if tasks_here.active else ("counting", "merging"):
        assert report["stage_peak_bytes"][stage] <= at_most(plan["memory"], text_bytes)
    assert "vocab_size: [400], workers: 2" in plan["options"]
    assert planned(words)["disk"] == plan["disk"]


def test_dry_run_of_a_combination_says_what_it_takes_and_writes_nothing(tmp_path: Path) -> None:
    one, two = (bpe_pipeline.combine({name: 5, "b": 2}, output=tmp_path / name) for name in ("low", "new"))
    shown = run("combine", one, two, "--output", tmp_path / "both", "--dry-run").stdout
    assert re.search(r"^unique pre-tokens +2 to 4$", shown, re.MULTILINE)
    size = sum((path / "counter.parquet").stat().st_size for path in (one, two))
    assert re.search(rf"^disk +at most {re.escape(format_bytes(size))} for the counter$", shown, re.MULTILINE)
    assert re.search(r"^memory +at most \d", shown, re.MULTILINE)
    assert not (tmp_path / "both").exists()
    bpe_pipeline.combine([one, two], output=tmp_path / "both")
    assert (tmp_path / "both" / "counter.parquet").stat().st_size <= size
    (two / "counter.parquet").unlink()
    assert "is not completely counted" in refused(run("combine", one, two, "--dry-run"), 1)
