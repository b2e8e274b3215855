"""`merge --parity`: a run of several languages, its merges, refusals, and what is stored of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from merge_cases import natural_counter
from parity_rules import Parity, train_by_parity
from reference import GPT2_BYTES

import pipeline
import pipeline.cli.definitions
from pipeline.base.errors import RunDirectoryError, TrainingError, UsageError
from pipeline.cli.command import commands
from pipeline.commands.info import run_info
from pipeline.commands.report import EXTENT
from pipeline.counts.count import require_counted
from pipeline.merges import merge, merge_list, merge_worker
from pipeline.pattern import compile_pattern
from pipeline.run import manifest
from pipeline.run.options import make_options
from pipeline.run.work import open_work
from pipeline.run.workers import executor_here


def words(seed: int, pieces: int) -> dict[bytes, int]:
    """Pieces that gpt2's pattern does not cut."""
    return {piece: n for piece, n in natural_counter(seed, pieces).items() if piece[1:].decode().isalpha()}


TRAIN = {name: words(seed, 300) for seed, name in enumerate(["en", "sw", "ja"])}
DEV = {name: words(seed + 20, 50) for seed, name in enumerate(["en", "sw", "ja"])}


@pytest.fixture(autouse=True)
def _without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTENT, "numbers")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("languages")
    return {
        f"{name}{kind}": Path(pipeline.import_counts(counter, output=home / f"{name}{kind}", special_tokens=[]))
        for kind, several in (("", TRAIN), ("-dev", DEV))
        for name, counter in several.items()
    }


def train(runs: dict[str, Path], output: Path, *, dev: bool = False, **options: Any) -> pipeline.Tokenizer:
    of_dev = {name: runs[f"{name}-dev"] for name in TRAIN} if dev else None
    return pipeline.train_parity({name: runs[name] for name in TRAIN}, dev=of_dev, output=output, **options)


def expected(merges: int, *, dev: bool = False, **options: Any) -> tuple[list[tuple[bytes, bytes]], list[int | None]]:
    found = train_by_parity(Parity([*TRAIN.values()], dev=[*DEV.values()] if dev else None, **options), merges)
    tokens = [bytes([byte]) for byte in GPT2_BYTES]
    tokens += [b""] * len(found)
    for rank, (left, right, _) in enumerate(found):
        tokens[256 + rank] = tokens[left] + tokens[right]
    return [(tokens[left], tokens[right]) for left, right, _ in found], [language for *_, language in found]


def test_merges_and_who_chose_them_are_those_of_the_definition(runs: dict[str, Path], tmp_path: Path) -> None:
    tokenizer = train(runs, tmp_path / "p", dev=True, global_merges=20, window=10, alpha=1.5, vocab_size=256 + 90)
    merges, languages = expected(90, dev=True, global_merges=20, window=10, alpha=1.5)
    assert tokenizer.merges == merges
    assert pq.read_table(tmp_path / "p" / "merges.parquet")["language"].to_pylist() == languages


def test_ratios_smaller_sizes_and_workers_change_nothing_else(runs: dict[str, Path], tmp_path: Path) -> None:
    given = {"ratio": {"en": 1.0, "sw": 2.0, "ja": 0.5}, "vocab_size": [256 + 80, 256 + 20]}
    tokenizer = train(runs, tmp_path / "p", workers=2, **given)
    assert tokenizer.merges == expected(80, ratios=[1.0, 2.0, 0.5])[0]
    smaller = pipeline.merge_run(tmp_path / "p", vocab_size=256 + 30)[256 + 30]
    assert smaller.merges == tokenizer.merges[:30]


def test_report_and_verify_know_the_languages(runs: dict[str, Path], tmp_path: Path) -> None:
    train(runs, tmp_path / "p", vocab_size=256 + 60)
    verified = pipeline.verify_run(tmp_path / "p")
    assert verified["merges"].startswith("60, each chosen by its language when learned again")
    found = json.loads((tmp_path / "p" / "report.json").read_text())["languages"]
    assert [one["name"] for one in found["measured"]] == list(TRAIN)
    assert sum(one["merges"] for one in found["measured"]) == 60
    assert 0 <= found["gini_after"] < found["gini_before"]
    shown = run_info(tmp_path / "p")
    assert [one.split()[0] for one in shown["languages"]] == list(TRAIN)
    assert shown["options"]["tie_break"] == "greatest-letters"
    assert "Gini coefficient" in (tmp_path / "p" / "report.txt").read_text()


def task_of(home: Path, vocab_size: int) -> merge_worker.MergeTask:
    options = make_options({"output": home, "special_tokens": [], "vocab_size": vocab_size})
    pattern = compile_pattern("gpt2")
    with executor_here(options) as executor, open_work(options, pattern, executor, lambda _: None) as work:
        found = manifest.require(home)
        return merge.task_of(work, found, require_counted(found, executor))


def test_merging_continues_after_the_merges_so_far(runs: dict[str, Path], tmp_path: Path) -> None:
    train(runs, tmp_path / "p", dev=True, window=7, vocab_size=256 + 25)
    task = task_of(tmp_path / "p", 256 + 90)
    first = merge_worker.stored(task)
    assert first is not None
    merge_list.save(first, task.so_far, task.fingerprint)
    continued = merge_worker.learn(task)
    assert list(continued.left) == [left for left, *_ in all_merges(90)]
    assert list(continued.chosen.by) == [language for *_, language in all_merges(90)]


def all_merges(merges: int) -> list[tuple[int, int, int | None]]:
    return train_by_parity(Parity([*TRAIN.values()], dev=[*DEV.values()], window=7), merges)


def test_other_settings_are_another_run(runs: dict[str, Path], tmp_path: Path) -> None:
    train(runs, tmp_path / "p", vocab_size=300)
    train(runs, tmp_path / "p", vocab_size=300)
    with pytest.raises(RunDirectoryError, match="holds another run"):
        train(runs, tmp_path / "p", window=5, vocab_size=300)


def test_counts_of_a_language_that_are_gone_are_named(tmp_path: Path) -> None:
    homes = {name: pipeline.import_counts(TRAIN[name], output=tmp_path / name) for name in ("en", "sw")}
    pipeline.train_parity(homes, output=tmp_path / "p", vocab_size=300)
    (tmp_path / "en" / "counter.parquet").unlink()
    assert len(pipeline.merge_run(tmp_path / "p", vocab_size=280)[280].merges) == 280 - 257
    with pytest.raises(RunDirectoryError, match=r"en/counter\.parquet"):
        pipeline.merge_run(tmp_path / "p", vocab_size=310)


def test_run_that_was_interrupted_while_it_was_made_is_not_merged_plainly(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    train(runs, tmp_path / "p", vocab_size=260)
    found = manifest.require(tmp_path / "p")
    manifest.save(replace(found, manifest=replace(found.manifest, parity=None)))
    with pytest.raises(RunDirectoryError, match="was interrupted while it was made"):
        pipeline.merge_run(tmp_path / "p", vocab_size=270)
    assert train(runs, tmp_path / "p", vocab_size=270).merges == expected(14)[0]


def test_too_little_memory_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    train(runs, tmp_path / "p", vocab_size=260)
    with pytest.raises(TrainingError, match=r"3 counters by parity takes .* give --memory-limit"):
        merge_worker.learn(replace(task_of(tmp_path / "p", 300), budget_bytes=40 << 20))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("{en} {sw}", "merge takes one RUN: give --parity"),
        ("{en} --global-merges 3", "--global-merges means nothing without --parity"),
        ("{en} -o {x}", "--output means nothing without --parity"),
        ("{en} {en} --parity -o {x}", "is named twice"),
        ("{en} {sw} --parity --dev {en-dev} -o {x}", "--dev is given 1 times for 2 runs"),
        ("{en} {sw} --parity --ratio 1 --ratio 0 -o {x}", "--ratio: expected numbers above 0"),
        ("{en} {sw} --parity --ratio 1 --ratio 2 --dev {en-dev} --dev {sw-dev} -o {x}", "--dev and --ratio exclude"),
        ("{en} {sw} --parity --parity-alpha 2 -o {x}", "--parity-alpha means nothing without --parity-window"),
        ("{en} {sw} --parity --parity-window 9 --parity-alpha 0 -o {x}", "--parity-alpha: expected a number above 0"),
        ("{en} {sw} --parity --tie-break greatest-bytes -o {x}", "--tie-break means nothing"),
        ("{en} {sw} --parity --superwords-from 300 -o {x}", "--superwords-from means nothing"),
    ],
)
def test_what_does_not_fit_is_refused(runs: dict[str, Path], tmp_path: Path, words: str, message: str) -> None:
    output = tmp_path / "x"
    given = [
        word.format_map({**{name: str(path) for name, path in runs.items()}, "x": output}) for word in words.split()
    ]
    with pytest.raises(UsageError, match=message):
        commands.main(["merge", *given, "--vocab-size", "300"], standalone_mode=False)
    assert not output.exists()
