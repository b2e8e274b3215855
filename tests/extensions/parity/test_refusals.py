"""What does not fit `parity` is refused before anything is written."""

import shutil
from dataclasses import replace
from pathlib import Path

import click
import pytest
from parity_runs import TRAIN, task_of

from bpe_pipeline.base.errors import RunDirectoryError, TrainingError, UsageError
from bpe_pipeline.cli import commands
from bpe_pipeline.commands.merge import run_merge
from bpe_pipeline.executors import Executor
from bpe_pipeline.merges import merge_worker
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.run import manifest
from bpe_pipeline.run.options import TrainOptions


def test_options_of_plain_merging_are_refused(merged: Path, executor: Executor) -> None:
    message = "--tie-break: of merges that languages choose, it means nothing here: leave it out"
    with pytest.raises(UsageError, match=message):
        run_merge(merged, TrainOptions(tie_break="greatest-bytes"), executor, lambda _: None)


def _with_source(merged: Path, home: Path, **source: object) -> None:
    run = manifest.require(shutil.copytree(merged, home))
    assert run.manifest.source is not None
    manifest.save(replace(run, manifest=replace(run.manifest, source=replace(run.manifest.source, **source))))


def test_damaged_settings_are_refused(merged: Path, tmp_path: Path) -> None:
    _with_source(merged, tmp_path / "p", chosen_by={"parity": {"window": 0}})
    with pytest.raises(RunDirectoryError, match=r"run\.json is damaged"):
        manifest.require(tmp_path / "p")


def test_chooser_that_is_not_installed_is_named(merged: Path, tmp_path: Path) -> None:
    _with_source(merged, tmp_path / "p", kind="other")
    with pytest.raises(
        RunDirectoryError, match=r"run\.json: the merges are chosen by 'other', .* install the extension"
    ):
        manifest.require(tmp_path / "p")


def test_too_little_memory_is_refused(merged: Path, executor: Executor) -> None:
    task = task_of(merged, executor, 400)
    with pytest.raises(UsageError, match=r"4 counters by parity takes .* give --memory-limit"):
        merge_worker.check(replace(task, grant=replace(task.grant, bytes=40 << 20)))


def test_language_of_rare_pre_tokens_is_refused(merged: Path, executor: Executor) -> None:
    task, most = task_of(merged, executor, 400), max(TRAIN["sw"].values())
    assert most < max(TRAIN["en"].values())
    with pytest.raises(
        TrainingError, match=f"language sw has no pre-tokens to merge; .* --min-pre-token-count {most + 1:,}"
    ):
        merge_worker.check(replace(task, rules=MergeRules(min_pre_token_count=most + 1)))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("merge {en} {sw}", "merge takes one RUN: let several choose with `parity`"),
        ("merge {en} --global-merges=3", "No such option .--global-merges"),
        ("parity {en} {en} -o {x}", "is named twice"),
        ("parity {en} {text} -o {x}", "text.txt is no run: .*, name its language, as in NAME=.*text.txt$"),
        ("parity {en} {sw} --dev {en-dev} --dev {text} -o {x}", "text.txt is no run: .* NAME="),
        ("parity en={en} en={sw} -o {x}", "en= is named twice"),
        ("parity en={en} {sw} -o {x}", "has no name, others have"),
        ("parity en={en} sw={sw} --dev en={en-dev} -o {x}", "--dev: sw is named by only one of RUN and --dev"),
        ("parity en={en} sw={sw} --dev {en-dev} -o {x}", "need names of languages both"),
        ("parity en={en} sw=/etc", "parity needs --output DIR: /etc is counted next to it"),
        ("parity {en} {sw} --dev {en-dev} -o {x}", "dev is given 1 time for 2 runs"),
        ("parity {en} {sw} --ratio 1 --ratio 0 -o {x}", "--ratio: expected a number above 0"),
        ("parity {en} {sw} --ratio 1 --ratio 2 --dev {en-dev} --dev {sw-dev} -o {x}", "dev and ratio exclude"),
        ("parity {en} {sw} --tie-break greatest-bytes -o {x}", "No such option.*--tie-break"),
        ("parity {en} --temperature 3 -o {x}", "give two RUNs or more, or use `merge` for one"),
        ("parity {en} {sw} -o {x}", "parity needs a measure of the languages: give --dev"),
        ("parity a={en} b={sw} --share en=5% -o {x}", "--share: 'en' is none of the names a, b"),
        ("parity {en} {sw} --ratio 1 --ratio 2 -o {sw}", "--output .*sw is one of the runs to merge; choose another"),
        ("parity {en} {sw} -o {x} --config {alpha: 3}", "alpha means nothing without window"),
        ("parity {en} {sw} -o {x} --config {alpha: 0}", "'alpha': expected a number above 0, not 0"),
        ("parity {en} {sw} -o {x} --config {global_merges: 1e9}", "'global_merges': expected a whole number .*'1e9'"),
        (
            "parity {en} {sw} -o {x} --config {window: 9999999999}",
            "'window': expected a whole number of at most 10{6}",
        ),
        ("parity {en} {sw} -o {x} --config {windows: 3}", "'windows' is unknown"),
    ],
)
def test_what_does_not_fit_is_refused(runs: dict[str, Path], tmp_path: Path, words: str, message: str) -> None:
    given, _, config = words.partition(" --config ")
    output, file = tmp_path / "x", tmp_path / "config.yaml"
    file.write_text(config or "{}")
    (text := tmp_path / "text.txt").write_text("text")
    named = [word.format_map({**runs, "x": output, "text": text}) for word in given.split()]
    with pytest.raises((UsageError, click.UsageError), match=message):
        commands.main([*named, "--vocab-size", "300", "--config", str(file)], standalone_mode=False)
    assert not output.exists()
