"""Counting that is killed at any change of a file resumes, in a compressed file or a share of combining: same bytes."""

import gzip
import json
import lzma
import random
import sys

import pyarrow as pa
import pytest
from amount import FULL, KILLS
from faults import Faults
from killing import counters, ended, require_clean, start
from peers import generated_text

import bpe_pipeline

END = "<|endoftext|>"
WORDS = " ".join(generated_text(seed, 2000) for seed in range(6)).split(" ")


def text(form, size=3_200_000):
    """Documents, some of them invalid, as text or as records, some of which are none."""
    random_, out = random.Random(form), []
    while sum(map(len, out)) < size:
        words = " ".join(random_.choices(WORDS, k=4000)) + f" {random_.random()}"
        document = words.encode() + (b"\xff\xe2\x82 " if random_.random() < 0.1 else b"")
        if form == "jsonl":
            document = json.dumps({"text": words} if random_.random() < 0.9 else {"other": 1}).encode()
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
        words = [
            sys.executable,
            "-P",
            "-m",
            "bpe_pipeline",
            "count",
            str(self.file),
            "--output",
            str(output),
            "--quiet",
        ]
        environment["BPE_PIPELINE_CHECKPOINT_S"] = str(interval_s)
        return ended(start([*words, *self.options, "--workers", "1"], **environment))


def results(run):
    report = json.loads((run / "report.json").read_text().replace(str(run), "RUN"))
    left_out = ("stages", "peak_memory_bytes", "stage_peak_bytes", "retries")
    found = {path.name: path.read_bytes() for path in (*run.glob("counter.parquet"), *run.glob("counts/*.parquet"))}
    return found, {name: value for name, value in report.items() if name not in left_out}


@pytest.fixture(scope="module", params=CASES)
def counted(request, tmp_path_factory):
    return Counted(request.param, tmp_path_factory.mktemp("counted"))


@pytest.mark.parametrize("counted", ["jsonl", pytest.param("txt", marks=pytest.mark.slow)], indirect=True)
def test_checkpoints_change_nothing(counted, tmp_path):
    assert counted.count(tmp_path / "run", interval_s=1000) == 0
    assert results(tmp_path / "run") == counted.results
    assert "resuming at" not in (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.parametrize(
    ("counted", "runs", "least"),
    [
        *(pytest.param(form, 3, 1, marks=pytest.mark.slow) for form in ("jsonl", "txt")),
        *(
            pytest.param(form, 4 * KILLS, KILLS, marks=pytest.mark.slow)
            for form in (CASES if FULL else ("jsonl", "one"))
        ),
    ],
    indirect=["counted"],
)
def test_killed_at_changes_of_files(counted, library, tmp_path, runs, least):
    """Killed at changes spread over the middle half of them."""
    first = Faults(library, tmp_path / "counter")
    assert counted.count(tmp_path / "counted", **first.environment(tmp_path / "counted", 0)) == 0
    resumed = 0
    for number in range(runs):
        output, killer = tmp_path / f"run-{number}", Faults(library, tmp_path / f"counter-{number}")
        at = 1 + round(first.changes * (0.25 + 0.5 * (number + 0.5) / runs))
        counted.count(output, **killer.environment(output, at))
        assert counted.count(output) == 0
        assert results(output) == counted.results
        require_clean(output)
        resumed += "resuming at byte" in (output / "log.txt").read_text()
    assert resumed >= least


@pytest.mark.parametrize("counted", ["jsonl"], indirect=True)
def test_checkpoint_without_its_parts_is_none(counted, library, tmp_path):
    run, killer, found = tmp_path / "run", Faults(library, tmp_path / "counter"), []
    for at in range(25, 200, 15):
        counted.count(run, **killer.environment(run, at))
        if found := list(run.glob("counts/.*.checkpoint.kept")):
            break
    [path] = found
    first, *_ = json.loads(path.read_text())["parts"]
    (path.parent / first).unlink()
    assert counted.count(run) == 0
    assert results(run) == counted.results
    assert "resuming at byte" not in (run / "log.txt").read_text()


@pytest.mark.parametrize("changes_left", [(13,), pytest.param((13, 37), marks=pytest.mark.slow)])
def test_killed_combination_keeps_its_shares(library, tmp_path, changes_left):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for seed in range(6):
        (corpus / f"{seed}.txt").write_text(generated_text(seed, 3000))

    def count(name, **environment):
        small = "import bpe_pipeline.counts.combine as it; it.SHARE_BYTES = 16384"
        script = f"{small}; from bpe_pipeline.__main__ import main; raise SystemExit(main())"
        words = [sys.executable, "-P", "-c", script, "count", str(corpus), "--output", str(tmp_path / name)]
        words += ["--chunk-size", "20KB", "--workers", "2", "--quiet"]
        return ended(start(words, **environment))

    whole, killer = tmp_path / "counted" / "counter.parquet", Faults(library, tmp_path / "changes")
    assert count("counted", **killer.environment(tmp_path / "counted", 0)) == 0
    kept = 0
    for before_end in changes_left:
        run = tmp_path / f"run-{before_end}"
        killed = Faults(library, tmp_path / f"changes-{before_end}")
        count(run.name, **killed.environment(run, max(1, killer.changes - before_end)))
        kept += len(list(run.glob("counts/share-*")))
        assert count(run.name) == 0
        assert (run / "counter.parquet").read_bytes() == whole.read_bytes()
        require_clean(run)
        assert len(counters(run)) > 4
    assert kept > 1


@pytest.mark.slow
def test_foreign_names_of_shares_are_left_alone(tmp_path, monkeypatch):
    """Only shares that this command can have written say how many there are."""
    monkeypatch.setattr("bpe_pipeline.counts.combine.SHARE_BYTES", 1)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(generated_text(len(name), 60))
    run = tmp_path / "run"
    foreign = [
        run / "counts" / name
        for name in ("share-x", f"share-000-of-010000-{0:016x}.parquet", f"share-000-of-002-{0:016x}.parquet")
    ]
    (run / "counts").mkdir(parents=True)
    for path in foreign:
        path.write_bytes(b"theirs")
    bpe_pipeline.count(tmp_path / "*.txt", output=run, workers=1, chunk_size=500, overwrite=True)
    assert [path.read_bytes() for path in foreign] == [b"theirs"] * 3
    assert "combining: 10000 tasks" not in (run / "log.txt").read_text()
    once = bpe_pipeline.count(tmp_path / "*.txt", output=tmp_path / "once", workers=1, chunk_size=500)
    assert (tmp_path / "once" / "counter.parquet").read_bytes() == (run / "counter.parquet").read_bytes(), once
