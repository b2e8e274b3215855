"""Merging as a stage of a run: killed and continued, under a limit that its words do not fit."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from chunk_tasks import random_words
from command import files_in, refused, run, succeeded
from killing import kill, require_clean

import bpe_pipeline
from bpe_pipeline.base.errors import TrainingError
from bpe_pipeline.run.directory import MERGES_SO_FAR

SIZE = 3000


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two hundred thousand different pre-tokens, merged without a limit."""
    run = tmp_path_factory.mktemp("counted") / "run"
    words = random_words(9, 2_000_000).split(b" ")
    bpe_pipeline.combine({b" " + word: 1 + len(word) % 7 for word in words if word}, output=run)
    bpe_pipeline.merge(run, vocab_size=SIZE)
    return run


def started(run: Path) -> tuple["subprocess.Popen[str]", int]:
    """Start to merge in a run directory; return the process and the number of merges that it continues from.

    Merges are stored after each phase, not only once a second: it is killed in less.
    """
    words = [sys.executable, "-P", "-m", "bpe_pipeline", "merge", str(run), f"--vocab-size={SIZE}", "--log-json"]
    options = {"env": os.environ | {"BPE_PIPELINE_CHECKPOINT_S": "0"}, "start_new_session": True, "text": True}
    words += ["--workers=1", "--memory-limit=126MiB"]  # the words are on disk
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    assert process.stdout is not None
    events = map(json.loads, process.stdout)
    return process, next(event["done"] for event in events if event["event"] == "stage_started")


def unmerged(counted: Path, run: Path) -> Path:
    """A copy of the run without its merges."""
    shutil.copytree(counted, run)
    (run / "merges.parquet").unlink()
    return run


def require_merged(process: "subprocess.Popen[str]", run: Path, counted: Path) -> None:
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert (run / "merges.parquet").read_bytes() == (counted / "merges.parquet").read_bytes()
    assert not (run / MERGES_SO_FAR).exists()
    require_clean(run)


@pytest.mark.slow
def test_killed_merging_continues_from_its_last_phase(counted: Path, tmp_path: Path) -> None:
    run = unmerged(counted, tmp_path / "run")
    process, _ = started(run)
    while not (run / MERGES_SO_FAR).exists():
        assert process.poll() is None
        time.sleep(0.002)
    kill(process.pid, "all", random.Random(1))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    process, known = started(run)
    assert 0 < known < SIZE
    require_merged(process, run, counted)


def test_a_first_merge_that_was_killed_binds_no_other(tmp_path: Path) -> None:
    counts = {"ab": 2, "cd": 2}
    run, plain = (bpe_pipeline.combine(counts, output=tmp_path / name) for name in ("run", "plain"))
    with patch("bpe_pipeline.merges.merge.learn", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        bpe_pipeline.merge(run, vocab_size=258, tie_break="greatest-bytes")
    found = [bpe_pipeline.merge(one, vocab_size=258)[258].merges for one in (run, plain)]
    assert found == [[(b"a", b"b")]] * 2


@pytest.mark.slow
def test_damaged_checkpoint_is_not_used(counted: Path, tmp_path: Path) -> None:
    run = unmerged(counted, tmp_path / "run")
    (run / MERGES_SO_FAR).write_bytes((counted / "merges.parquet").read_bytes()[:-100])
    process, known = started(run)
    assert known == 0
    require_merged(process, run, counted)


def test_leaving_out_every_pre_token_is_refused(trained: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trained, tmp_path / "run"))
    most = max(pq.read_table(copy / "counter.parquet")["count"].to_pylist())
    before = files_in(copy)
    with pytest.raises(TrainingError, match=rf"leaves out every pre-token.*give at most {most}$"):
        bpe_pipeline.merge(copy, vocab_size=300, min_pre_token_count=most + 1, overwrite=True)
    assert files_in(copy) == before
    mixed = bpe_pipeline.combine([copy], output=copy.with_name("mix"))  # of which nothing is learned yet
    with pytest.raises(TrainingError, match="leaves out every pre-token"):
        bpe_pipeline.merge(mixed, vocab_size=300, min_pre_token_count=most + 1)
    assert not (mixed / "merges.parquet").exists()
    bpe_pipeline.merge(mixed, vocab_size=300, min_pre_token_count=most)


def test_several_sizes_from_flags_and_files(trained: Path, tmp_path: Path) -> None:
    mixed = bpe_pipeline.combine([trained], output=tmp_path / "mix")
    result = succeeded(run("merge", mixed, "--vocab-size", "300,350,280", "--log-json"))
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["vocabulary"]["vocab_size"] == 300
    assert [other["vocabulary"]["vocab_size"] for other in summary["other_sizes"]] == [350, 280]
    assert sorted(path.name for path in mixed.glob("tokenizer*")) == ["tokenizer", "tokenizer-280", "tokenizer-350"]
    (tmp_path / "c.yaml").write_text("vocab-size: [290, 310]\n")
    quiet = run("merge", mixed, "--config", tmp_path / "c.yaml", "--quiet").stdout.split()
    assert quiet == [str(mixed / "tokenizer-290"), str(mixed / "tokenizer-310")]
    assert "too small" in refused(run("merge", mixed, "--vocab-size", "300,3"), 2)
    assert "whole number" in refused(run("merge", mixed, "--vocab-size", "300,,3"), 2)
