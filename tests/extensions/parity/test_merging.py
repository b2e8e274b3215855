"""A run by parity has the merges of the definition, whatever stops it on the way."""

import random
import re
import shutil
import sys
import time
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chunk_tasks import random_words
from command import run, run_process, succeeded
from killing import ended, kill, start
from parity_rules import Parity, train_by_parity
from parity_runs import DEV, TRAIN, Train, by_parity, expected, task_of

import bpe_pipeline
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.commands.merge import run_merge
from bpe_pipeline.executors import Executor
from bpe_pipeline.merges import merge_list, merge_worker
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import MERGES_SO_FAR
from bpe_pipeline.run.mixture import Mixture
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.values import shown_weight
from bpe_pipeline.tokenizer.tokenizer import Tokenizer


def test_merges_and_who_chose_them_are_those_of_the_definition(train: Train, tmp_path: Path) -> None:
    given = {"dev": True, "global_merges": 20, "window": 10, "alpha": 1.5}
    merges, languages = expected(90, **given)
    assert train(tmp_path / "p", vocab_size=256 + 90, **given) == merges
    assert pq.read_table(tmp_path / "p" / "merges.parquet")["language"].to_pylist() == languages


@pytest.mark.parametrize("settings", [{}, {"dev": True, "global_merges": 30}, {"ratio": (1.0, 2.0)}], ids=str)
def test_weighted_languages_choose_as_if_counted_so_often(
    settings: dict[str, Any], train: Train, tmp_path: Path
) -> None:
    home, options = tmp_path / "p", {name.replace("ratio", "ratios"): value for name, value in settings.items()}
    merges = train(home, vocab_size=256 + 80, temperature="inf", **settings)
    sizes = [sum(len(pre_token) * count for pre_token, count in counter.items()) for counter in TRAIN.values()]
    weights = list(map(Fraction, Mixture("inf").weights(dict(zip(TRAIN, sizes, strict=True)))))
    assert (merges, pq.read_table(home / "merges.parquet")["language"].to_pylist()) == expected(
        80, weights=weights, **options
    )
    assert [(text.weight, text.share) for text in manifest.require(home).manifest.mixed_texts] == [
        (shown_weight(weight), pytest.approx(0.5, rel=1e-5)) for weight in weights
    ]


def test_shares_name_languages(runs: dict[str, Path], tmp_path: Path) -> None:
    words = ["parity", f"english={runs['en']}", f"sw={runs['sw']}", "--share", "english=90%"]
    shown = succeeded(run(*words, "--vocab-size", 300, "--output", tmp_path / "p"))
    assert re.search(r"^ +en  .*90\.00%$", shown.stdout, re.MULTILINE), shown.stdout
    succeeded(run("verify", tmp_path / "p"))


def test_smaller_size_has_the_first_merges(merged: Path, executor: Executor, tmp_path: Path) -> None:
    _, trained = run_merge(
        shutil.copytree(merged, tmp_path / "p"),
        TrainOptions(vocab_size=(256 + 30,)),
        executor,
        lambda _: None,
    )
    assert Tokenizer.from_model(trained.model(256 + 30)).merges == expected(60, dev=True)[0][:30]


def test_language_of_single_bytes_is_spent_when_it_chooses(executor: Executor, tmp_path: Path) -> None:
    counters = {"x": {b"x": 100, b"y": 2}, "ab": {b"aabb": 10, b"abc": 4}}
    for name, counter in counters.items():
        bpe_pipeline.combine(counter, output=tmp_path / name, special_tokens=[])
    homes = [(name, tmp_path / name) for name in counters]
    vocabulary = by_parity(homes, homes[::-1], executor, vocab_size=262, output=tmp_path / "p").vocabulary
    found = train_by_parity(Parity([*counters.values()], dev=[*counters.values()][::-1]), 6)
    assert [*zip(vocabulary.left, vocabulary.right, strict=True)][-6:] == [(left, right) for left, right, _ in found]


def test_configuration_file_has_what_flags_do_not(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "how.toml").write_text("window = '1k'\nalpha = 1.5\nglobal-merges = 20\nvocab_size = 316")
    words = [
        runs["en"],
        runs["sw"],
        "--dev",
        runs["en"],
        "--dev",
        runs["sw"],
        "--config",
        tmp_path / "how.toml",
        "--output",
        tmp_path / "p",
    ]
    succeeded(run("parity", *words))
    merges, _ = expected(60, global_merges=20, window=1000, alpha=1.5)
    assert Tokenizer.load(tmp_path / "p").merges == merges


def test_merging_continues_after_the_merges_so_far(merged: Path, executor: Executor, tmp_path: Path) -> None:
    task = task_of(merged, executor, 256 + 90)
    assert task.learner is not None
    [parity] = task.learner.learn.args
    learner = replace(task.learner, learn=partial(task.learner.learn.func, replace(parity, window=7)))
    task = replace(task, learner=learner, output=tmp_path / "merges.parquet", so_far=tmp_path / "so-far.parquet")
    first = merge_worker.learn(replace(task, merges=25))
    merge_list.save(first, task.so_far, task.fingerprint)
    known = merge_worker.known(task)
    assert known is not None
    assert len(known) == 25
    continued = merge_worker.learn(task)
    found = train_by_parity(Parity([*TRAIN.values()], dev=[*DEV.values()], window=7), 90)
    assert list(continued.left) == [left for left, *_ in found]
    assert list(continued.choices.columns["language"]) == [language for *_, language in found]


def test_same_settings_are_the_same_run(train: Train, merged: Path) -> None:
    before = (merged / "merges.parquet").read_bytes()
    assert train(merged, dev=True, vocab_size=256 + 60) == expected(60, dev=True)[0]
    assert (merged / "merges.parquet").read_bytes() == before


def test_other_settings_are_another_run(train: Train, merged: Path) -> None:
    with pytest.raises(RunDirectoryError, match="holds another run"):
        train(merged, dev=True, vocab_size=256 + 60, window=5)


def test_lost_counts_are_named(runs: dict[str, Path], merged: Path, executor: Executor, tmp_path: Path) -> None:
    home, counter = tmp_path / "p", runs["sw"] / "counter.parquet"
    shutil.copytree(merged, home)
    counter.rename(tmp_path / "kept.parquet")
    try:
        _, smaller = run_merge(home, TrainOptions(vocab_size=(256 + 30,)), executor, lambda _: None)
        assert len(Tokenizer.from_model(smaller.model(256 + 30)).merges) == 30
        with pytest.raises(RunDirectoryError, match=r"sw/counter\.parquet"):
            run_merge(home, TrainOptions(vocab_size=(256 + 90,)), executor, lambda _: None)
    finally:
        (tmp_path / "kept.parquet").rename(counter)


@pytest.mark.slow
def test_killed_merging_by_parity_continues(tmp_path: Path) -> None:
    homes = []
    for seed in range(2):
        counter = {b" " + word: 1 + len(word) % 7 for word in random_words(seed, 1_500_000).split(b" ") if word}
        homes.append(str(bpe_pipeline.combine(counter, output=tmp_path / f"of{seed}")))
    languages = dict(zip("ab", homes, strict=True))
    expected = bpe_pipeline.parity(languages, ratio=dict.fromkeys("ab", 1), output=tmp_path / "p", vocab_size=4000)
    words = ["parity", *homes, "--ratio=1", "--ratio=1", "--output", str(tmp_path / "q"), "--vocab-size=4000"]
    so_far, kept = tmp_path / "q" / MERGES_SO_FAR, 0
    command = [sys.executable, "-P", "-m", "bpe_pipeline", *words]
    for _ in range(3):
        before = so_far.stat().st_mtime_ns if so_far.exists() else 0
        process = start(command, BPE_PIPELINE_CHECKPOINT_S="0")
        while process.poll() is None and not (so_far.exists() and so_far.stat().st_mtime_ns != before):
            time.sleep(0.01)
        kill(process.pid, "all", random.Random(0))
        kept += ended(process) != 0
    assert kept, "it ended before it could be killed"
    assert "kept from before" in succeeded(run_process(*words)).stderr
    for name in ("merges.parquet", "tokenizer/tokenizer.json"):
        assert (tmp_path / "q" / name).read_bytes() == (tmp_path / "p" / name).read_bytes(), name
    assert Tokenizer.load(tmp_path / "q" / "tokenizer").merges == expected.merges
