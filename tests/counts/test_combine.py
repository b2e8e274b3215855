"""Combining in shares on one machine: killed in it, a run resumes with the shares that are complete."""

import sys

import pytest
from killing import KillAt, counters, ended, require_clean, start
from peers import generated_text


@pytest.mark.parametrize("changes_left", [(12,), pytest.param((12, 36), marks=pytest.mark.slow)])
def test_killed_combination_keeps_its_shares(library, tmp_path, changes_left):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for seed in range(6):
        (corpus / f"{seed}.txt").write_text(generated_text(seed, 3000))

    def count(name, **environment):
        small = "import pipeline.counts.combine as it; it._SHARE_BYTES = 16384"
        script = f"{small}; from pipeline.__main__ import main; raise SystemExit(main())"
        words = [sys.executable, "-P", "-c", script, "count", str(corpus), "--output", str(tmp_path / name)]
        words += ["--chunk-size", "20KB", "--workers", "2", "--quiet"]
        return ended(start(words, None, **environment))

    assert count("once") == 0
    whole = tmp_path / "once" / "counter.parquet"
    killer = KillAt(library, tmp_path / "changes")
    assert count("counted", **killer.environment(tmp_path / "counted", 0)) == 0
    kept = 0
    for before_end in changes_left:
        run = tmp_path / f"run-{before_end}"
        killed = KillAt(library, tmp_path / f"changes-{before_end}")
        count(run.name, **killed.environment(run, max(1, killer.changes - before_end)))
        kept += len(list(run.glob("counts/share-*")))
        assert count(run.name) == 0
        assert (run / "counter.parquet").read_bytes() == whole.read_bytes()
        require_clean(run)
        assert len(counters(run)) > 4
    assert kept > 1
