"""`parity`: a run of several languages, its merges, refusals, and what is stored of it."""

import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pyarrow.parquet as pq
import pytest
from chunk_tasks import random_words
from command import model, run, run_process, succeeded
from killing import ended, kill, start
from merge_cases import natural_counter
from parity_rules import Parity, train_by_parity
from reference import GPT2_BYTES

import pipeline
import pipeline.cli
from pipeline.base.errors import RunDirectoryError, TrainingError, UsageError
from pipeline.cli.command import commands
from pipeline.commands.merge import run_merge
from pipeline.commands.report import EXTENT, load
from pipeline.counts.count import require_counted
from pipeline.executors import Executor
from pipeline.guests.parity.parity import run_parity
from pipeline.guests.parity.parity_worker import MeasureTask, measure
from pipeline.merges import merge, merge_list, merge_worker
from pipeline.merges.rules import MergeRules
from pipeline.run import manifest
from pipeline.run.directory import MERGES_SO_FAR
from pipeline.run.make_options import make_options
from pipeline.run.options import TrainOptions
from pipeline.run.runner import watched
from pipeline.run.workers import executor_here
from pipeline.tokenizer.tokenizer import Tokenizer


def words(seed: int, pieces: int) -> dict[bytes, int]:
    """Pieces that gpt2's pattern does not cut."""
    return {piece: n for piece, n in natural_counter(seed, pieces).items() if piece[1:].decode().isalpha()}


TRAIN = {name: words(seed, 300) for seed, name in enumerate(["en", "sw"])}
DEV = {name: words(seed + 20, 50) for seed, name in enumerate(["en", "sw"])}


@pytest.fixture(autouse=True)
def _without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTENT, "numbers")


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    """One for all trainings: its workers start once."""
    with executor_here(make_options(TrainOptions, {"workers": 1})) as held:
        yield held


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("languages")
    return {
        f"{name}{kind}": Path(pipeline.import_counts(counter, output=home / f"{name}{kind}", special_tokens=[]))
        for kind, several in (("", TRAIN), ("-dev", DEV))
        for name, counter in several.items()
    }


Train = Callable[..., list[tuple[bytes, bytes]]]


def by_parity(
    homes: list[tuple[str, Path]], dev: list[tuple[str, Path]], executor: Executor, **options: Any
) -> Tokenizer:
    settings = {name: options.pop(name) for name in ("ratio", "window", "alpha", "global_merges") if name in options}
    _, trained = run_parity(homes, dev, settings, options, executor, lambda _: None)
    return Tokenizer.from_model(trained.model(trained.options.vocab_size[0]))


@pytest.fixture(scope="module")
def train(runs: dict[str, Path], executor: Executor) -> Train:
    """Returns the merges of the first size."""

    def run(output: Path, *, dev: bool = False, **options: Any) -> list[tuple[bytes, bytes]]:
        homes, of_dev = ([(name, runs[name + kind]) for name in TRAIN] for kind in ("", "-dev"))
        return by_parity(homes, of_dev if dev else [], executor, output=output, **options).merges

    return run


def expected(merges: int, *, dev: bool = False, **options: Any) -> tuple[list[tuple[bytes, bytes]], list[int | None]]:
    found = train_by_parity(Parity([*TRAIN.values()], dev=[*DEV.values()] if dev else None, **options), merges)
    tokens = [bytes([byte]) for byte in GPT2_BYTES]
    tokens += [b""] * len(found)
    for rank, (left, right, _) in enumerate(found):
        tokens[256 + rank] = tokens[left] + tokens[right]
    return [(tokens[left], tokens[right]) for left, right, _ in found], [language for *_, language in found]


def test_merges_and_who_chose_them_are_those_of_the_definition(train: Train, tmp_path: Path) -> None:
    given = {"dev": True, "global_merges": 20, "window": 10, "alpha": 1.5}
    merges, languages = expected(90, **given)
    assert train(tmp_path / "p", vocab_size=256 + 90, **given) == merges
    assert pq.read_table(tmp_path / "p" / "merges.parquet")["language"].to_pylist() == languages


def test_ratios_and_smaller_sizes_change_nothing_else(train: Train, executor: Executor, tmp_path: Path) -> None:
    merges = train(tmp_path / "p", ratio=[1.0, 2.0], vocab_size=[256 + 80, 256 + 20])
    assert merges == expected(80, ratios=[1.0, 2.0])[0]
    _, smaller = run_merge(tmp_path / "p", {"vocab_size": 256 + 30}, executor, lambda _: None)
    assert Tokenizer.from_model(smaller.model(256 + 30)).merges == merges[:30]


@pytest.fixture(scope="module")
def merged(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 60 merges, not to be changed."""
    home = tmp_path_factory.mktemp("merged") / "p"
    train(home, dev=True, vocab_size=256 + 60)
    return home


def test_report_and_verify_know_the_languages(merged: Path, tmp_path: Path) -> None:
    verified = pipeline.verify_run(merged)
    assert verified["merges"].startswith("60, each chosen by its language when learned again")
    found = json.loads((merged / "report.json").read_text())["sections"][0]["numbers"]
    assert [one["name"] for one in found["measured"]] == list(TRAIN)
    assert sum(one["merges"] for one in found["measured"]) == 60
    tokenizer = Tokenizer.load(merged / "tokenizer")
    for what, gini, length in (
        ("tokens", found["gini_after"], lambda piece: len(tokenizer.encode(piece.decode()))),
        ("bytes", found["gini_before"], len),
    ):
        one, other = (sum(length(piece) * n for piece, n in counter.items()) for counter in DEV.values())
        assert [each[what] for each in found["measured"]] == [one, other]
        assert gini == pytest.approx(abs(one - other) / (2 * (one + other)))
    chosen = pq.read_table(merged / "merges.parquet")["language"].to_pylist()
    assert found["merges"] == [0, 1, 3, 7, 15, 30, 60]
    assert found["chosen"] == [[chosen[:until].count(at) for until in found["merges"]] for at in (0, 1)]
    assert [one[-1] for one in found["tokens"]] == [one["tokens"] for one in found["measured"]]
    shown = pipeline.info(merged)
    assert [one.split()[0] for one in shown["languages"]] == list(TRAIN)
    assert shown["options"]["tie_break"] == "greatest-letters"
    assert "Gini coefficient" in (merged / "report.txt").read_text()
    again = shutil.copytree(merged, tmp_path / "again")
    pipeline.report(again)
    first, second = (one["tokens"] for one in found["measured"])
    pays = dict(load(manifest.require(again)).verdict)["Who pays"]
    base, other = TRAIN
    assert pays.startswith(f"{other} {second / first:.2f} times the tokens of {base} for the same --dev text; Gini")
    copied = shutil.copytree(merged, tmp_path / "run")
    smaller = pipeline.merge_run(copied, vocab_size=256 + 15)[256 + 15]
    own = [sum(len(smaller.encode(piece.decode())) * n for piece, n in counter.items()) for counter in DEV.values()]
    assert [one[4] for one in found["tokens"]] == own
    assert json.loads((copied / "report.json").read_text())["sections"] == []  # they were measured after 60 merges


def test_thresholds_are_of_the_runs_own_merges(merged: Path, executor: Executor, tmp_path: Path) -> None:
    _, trained = run_merge(shutil.copytree(merged, tmp_path / "p"), {}, executor, lambda _: None)
    table, least = pq.read_table(merged / "merges.parquet").to_pylist(), (1, 1000, 3000)
    found = measure(MeasureTask(manifest.require(merged).manifest.chooser.parity, trained, 256 + 60, least))
    for count, merges_left, at_most in zip(least, found.kept, found.without, strict=True):
        kept = {row["left"] + row["right"] for row in table if row["count"] >= count}
        for row in reversed(table):
            kept |= {row["left"], row["right"]} if row["left"] + row["right"] in kept else set()
        merges = [row for row in table if row["left"] + row["right"] in kept]
        assert merges_left == len(merges)
        for counter, bound in zip(DEV.values(), at_most, strict=True):
            tokens = 0
            for piece, times in counter.items():
                parts = [bytes([byte]) for byte in piece]
                for row in merges:
                    parts = joined(parts, row["left"], row["right"])
                tokens += len(parts) * times
            assert tokens <= bound <= 1.05 * tokens
    assert 0 < found.kept[2] < found.kept[1] < found.kept[0] == 60


def joined(parts: list[bytes], left: bytes, right: bytes) -> list[bytes]:
    found: list[bytes] = []
    for part in parts:
        if found and found[-1] == left and part == right:
            found[-1] = left + right
        else:
            found.append(part)
    return found


def test_text_is_counted_and_parity_has_a_price(tmp_path: Path) -> None:
    english, swahili = "The boat is on the old river. " * 60, "Mashua iko mtoni, mtu na mashua. "
    texts = {"en.txt": english, "sw.txt": swahili * 9, "en-dev.txt": english[:300], "sw-dev.txt": swahili}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    words = ["parity", "en=en.txt", "sw=sw.txt", "--dev", "sw=sw-dev.txt", "--dev", "en=en-dev.txt", "--compare-plain"]
    words += ["--vocab-size", 285, "--output", "fair"]
    result = succeeded(run(*words, cwd=tmp_path))
    assert sorted(path.name for path in (tmp_path / "fair-languages").iterdir()) == ["en", "en-dev", "sw", "sw-dev"]
    numbers = json.loads((tmp_path / "fair" / "report.json").read_text())["sections"][0]["numbers"]
    texts = [(tmp_path / f"{name}-dev.txt").read_text() for name in ("en", "sw")]
    plain, fair = (pipeline.load(tmp_path / name) for name in ("fair-plain", "fair"))
    assert numbers["plain"] == [len(plain.encode(text)) for text in texts]
    assert [one["tokens"] for one in numbers["measured"]] == [len(fair.encode(text)) for text in texts]
    assert "with plain merges" in result.stdout
    drawn = {one.id: one for one in load(manifest.require(tmp_path / "fair")).added_figures}
    lines = {one.name: dict(one.points) for one in drawn["chosen-tokens"].series}
    assert [lines[one["name"]][28] for one in numbers["measured"]] == [one["tokens"] for one in numbers["measured"]]
    assert min(lines["en"]) == 1  # a logarithm has no 0
    chose = {one.name: dict(one.points)[28] for one in drawn["chosen-merges"].series}
    shares = {one["name"]: round(100 * one["merges"] / 28, 2) for one in numbers["measured"]}
    assert chose == shares | {"an even share": 50}
    assert "counting kept" in succeeded(run(*words, cwd=tmp_path)).stdout
    (tmp_path / "fair-plain").rename(tmp_path / "gone")
    drawn_by = find_spec("matplotlib")
    pipeline.report(tmp_path / "fair", figures=tmp_path / "figures" if drawn_by else None)
    written = {path.name for path in (tmp_path / "figures").glob("*")}
    wanted = {"chosen-tokens.svg", "chosen-merges.pdf", "chosen-tokens.csv", "table-languages.csv"}
    assert wanted <= written or not drawn_by
    page = (tmp_path / "fair" / "report.html").read_text()
    assert all(f'<div id="{name}"' in page for name in ("chosen-tokens", "chosen-merges", "languages"))
    languages = {"en": tmp_path / "en.txt", "sw": tmp_path / "fair-languages" / "sw"}
    dev = {name: tmp_path / f"{name}-dev.txt" for name in languages}
    python = pipeline.train_parity(languages, dev=dev, vocab_size=285, output=tmp_path / "b")
    assert python.merges == fair.merges


def test_text_is_counted_with_the_options_of_the_runs(tmp_path: Path) -> None:
    english, swahili = "The boat is on the old river 2024. " * 60, "Mashua iko mtoni, mtu na mashua 2024. " * 55
    for name, text in {
        "en.txt": english,
        "sw.txt": swahili,
        "en-dev.txt": english[:350],
        "sw-dev.txt": swahili[:300],
    }.items():
        (tmp_path / name).write_text(text)
    counting = {"pattern": "llama3", "normalize": "nfc", "special_tokens": ["<x>"], "errors": "skip"}
    pipeline.count(tmp_path / "sw.txt", output=tmp_path / "sw", **counting)
    languages = {"en": tmp_path / "en.txt", "sw": tmp_path / "sw"}
    dev = {name: tmp_path / f"{name}-dev.txt" for name in languages}
    tokenizer = pipeline.train_parity(languages, dev=dev, vocab_size=290, output=tmp_path / "fair")
    for home in (tmp_path / "fair", *(tmp_path / "fair-languages").iterdir()):
        stored = manifest.require(home).manifest.counting
        assert {name: stored[name] for name in counting} == counting
    assert [*tokenizer.special_tokens] == ["<x>"]
    words = ["parity", *(f"{name}={home}" for name, home in languages.items()), "--vocab-size", 290]
    words += [word for name, home in dev.items() for word in ("--dev", f"{name}={home}")]
    result = succeeded(run(*words, "--output", tmp_path / "command"))
    assert model(tmp_path / "command") == model(tmp_path / "fair")
    assert "differ in length" not in result.stderr
    (tmp_path / "sw-dev.txt").write_text("Mashua iko mtoni é.")
    result = succeeded(run(*words, "--output", tmp_path / "uneven"))
    assert "differ in length by more than a fifth (en 350, sw 19 characters)" in result.stderr
    texts = ("en=en.txt", "sw=sw.txt", "--normalize", "nfc", "--vocab-size", 290, "--output", "from-texts")
    succeeded(run("parity", *texts, cwd=tmp_path))
    assert manifest.require(tmp_path / "from-texts").manifest.counting["normalize"] == "nfc"


def test_language_that_chooses_many_rare_merges_is_warned_of(tmp_path: Path) -> None:
    counters = {"en": {b" the": 500, b" river": 300}, "eu": {b" " + word: 2 for word in random_words(3, 400).split()}}
    homes = {name: pipeline.import_counts(counter, output=tmp_path / name) for name, counter in counters.items()}
    words = ["parity", *(f"{name}={home}" for name, home in homes.items()), "--ratio", 1, "--ratio", 5]
    result = succeeded(run(*words, "--vocab-size", 320, "--output", tmp_path / "p"))
    assert "warning: eu chose " in result.stderr
    [advice] = [
        one for one in json.loads((tmp_path / "p" / "report.json").read_text())["advice"] if one["evidence"].get("rare")
    ]
    rows = pq.read_table(tmp_path / "p" / "merges.parquet").to_pylist()
    assert advice["evidence"]["rare"]["eu"] == sum(row["language"] == 1 and row["count"] < 5 for row in rows)
    assert advice["evidence"]["chosen"]["eu"] == sum(row["language"] == 1 for row in rows)
    assert advice["take"] == "--min-frequency 20"


def task_of(home: Path, executor: Executor, vocab_size: int) -> merge_worker.MergeTask:
    options = make_options(TrainOptions, {"output": home, "special_tokens": [], "vocab_size": vocab_size})
    found = manifest.require(home)
    with watched(options, executor, lambda _: None) as runner:
        return merge.task_of(runner, merge.learning_of(found, options), require_counted(found, executor), options)


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


def test_other_settings_are_another_run(train: Train, merged: Path) -> None:
    given, before = {"dev": True, "vocab_size": 256 + 60}, (merged / "merges.parquet").read_bytes()
    assert train(merged, **given) == expected(60, dev=True)[0]
    assert (merged / "merges.parquet").read_bytes() == before
    with pytest.raises(RunDirectoryError, match="holds another run"):
        train(merged, window=5, **given)


def test_lost_counts_are_named(runs: dict[str, Path], merged: Path, executor: Executor, tmp_path: Path) -> None:
    home, counter = tmp_path / "p", runs["sw"] / "counter.parquet"
    shutil.copytree(merged, home)
    counter.rename(tmp_path / "kept.parquet")
    try:
        _, smaller = run_merge(home, {"vocab_size": 256 + 30}, executor, lambda _: None)
        assert len(Tokenizer.from_model(smaller.model(256 + 30)).merges) == 30
        with pytest.raises(RunDirectoryError, match=r"sw/counter\.parquet"):
            run_merge(home, {"vocab_size": 256 + 90}, executor, lambda _: None)
    finally:
        (tmp_path / "kept.parquet").rename(counter)


def test_plain_options_and_damaged_settings_are_refused(merged: Path, executor: Executor, tmp_path: Path) -> None:
    message = "--tie-break: of merges that languages choose, it means nothing here: leave it out"
    with pytest.raises(UsageError, match=message):
        run_merge(merged, {"tie_break": "greatest-bytes"}, executor, lambda _: None)
    found = manifest.require(shutil.copytree(merged, tmp_path / "p"))
    for source in ({"chosen_by": {"parity": {"window": 0}}}, {"kind": "other"}):
        changed = replace(found.manifest, source=replace(found.manifest.source, **source))
        manifest.save(replace(found, manifest=changed))
        with pytest.raises(RunDirectoryError, match=r"run\.json is damaged"):
            manifest.require(tmp_path / "p")


def test_little_memory_and_languages_of_rare_pieces_are_refused(merged: Path, executor: Executor) -> None:
    task, most = task_of(merged, executor, 400), max(TRAIN["sw"].values())
    assert most < max(TRAIN["en"].values())
    with pytest.raises(UsageError, match=r"4 counters by parity takes .* give --memory-limit"):
        merge_worker.check(replace(task, grant=replace(task.grant, bytes=40 << 20)))
    with pytest.raises(TrainingError, match=f"language sw has no pieces to merge; .* --min-piece-count {most + 1:,}"):
        merge_worker.check(replace(task, rules=MergeRules(min_piece_count=most + 1)))


def test_language_of_single_bytes_is_spent_when_it_chooses(executor: Executor, tmp_path: Path) -> None:
    counters = {"x": {b"x": 100, b"y": 2}, "ab": {b"aabb": 10, b"abc": 4}}
    for name, counter in counters.items():
        pipeline.import_counts(counter, output=tmp_path / name, special_tokens=[])
    homes = [(name, tmp_path / name) for name in counters]
    vocabulary = by_parity(homes, homes[::-1], executor, vocab_size=262, output=tmp_path / "p").vocabulary
    found = train_by_parity(Parity([*counters.values()], dev=[*counters.values()][::-1]), 6)
    assert [*zip(vocabulary.left, vocabulary.right, strict=True)][-6:] == [(left, right) for left, right, _ in found]


@pytest.mark.slow
def test_killed_merging_by_parity_continues(tmp_path: Path) -> None:
    homes = []
    for seed in range(2):
        counter = {b" " + word: 1 + len(word) % 7 for word in random_words(seed, 1_500_000).split(b" ") if word}
        homes.append(str(pipeline.import_counts(counter, output=tmp_path / f"of{seed}")))
    expected = pipeline.train_parity(dict(zip("ab", homes, strict=True)), output=tmp_path / "p", vocab_size=4000)
    words = ["parity", *homes, "--output", str(tmp_path / "q"), "--vocab-size=4000"]
    so_far, kept = tmp_path / "q" / MERGES_SO_FAR, 0
    command = [sys.executable, "-P", "-m", "pipeline", *words]
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


@pytest.mark.parametrize(("words", "message"), [
    ("merge {en} {sw}", "merge takes one RUN: let several choose with `parity`"),
    ("merge {en} --global-merges=3", "No such option .--global-merges"),
    ("parity {en} {en} -o {x}", "is named twice"),
    ("parity en={en} en={sw} -o {x}", "en= is named twice"),
    ("parity en={en} {sw} -o {x}", "has no name, others have"),
    ("parity en={en} sw={sw} --dev en={en-dev} -o {x}", "--dev: sw is named by only one of RUN and --dev"),
    ("parity en={en} sw={sw} --dev {en-dev} -o {x}", "need names of languages both"),
    ("parity en={en} sw=/etc", "parity needs --output DIR: /etc is counted next to it"),
    ("parity en={en} sw={sw} --compare-plain", "parity needs --output DIR: the run with plain merges"),
    ("parity en={en} sw={sw} --compare-plain --stop-at-saving 5% -o {x}", "--compare-plain compares"),
    ("parity {en} {sw} --dev {en-dev} -o {x}", "dev is given 1 time for 2 runs"),
    ("parity {en} {sw} --ratio 1 --ratio 0 -o {x}", "0.0 is not in the range"),
    ("parity {en} {sw} --ratio 1 --ratio 2 --dev {en-dev} --dev {sw-dev} -o {x}", "dev and ratio exclude"),
    ("parity {en} {sw} --tie-break greatest-bytes -o {x}", "No such option.*--tie-break"),
    ("parity {en} {sw} -o {sw}", "--output .*sw is one of the runs to merge; choose another"),
    ("parity {en} {sw} -o {x} --config {alpha: 3}", "alpha means nothing without window"),
    ("parity {en} {sw} -o {x} --config {alpha: 0}", "alpha: expected a number above 0, not 0"),
    ("parity {en} {sw} -o {x} --config {global_merges: 1e9}", "global_merges: expected a whole number .*'1e9'"),
    ("parity {en} {sw} -o {x} --config {window: 9999999999}", "window: expected a whole number of at most 1000000"),
    ("parity {en} {sw} -o {x} --config {windows: 3}", "'windows' is unknown"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(runs: dict[str, Path], tmp_path: Path, words: str, message: str) -> None:
    given, _, config = words.partition(" --config ")
    output, file = tmp_path / "x", tmp_path / "config.yaml"
    file.write_text(config or "{}")
    named = [word.format_map({**runs, "x": output}) for word in given.split()]
    with pytest.raises((UsageError, click.UsageError), match=message):
        commands.main([*named, "--vocab-size", "300", "--config", str(file)], standalone_mode=False)
    assert not output.exists()


def test_configuration_file_has_what_flags_do_not(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "how.toml").write_text("window = '1k'\nalpha = 1.5\nglobal-merges = 20\nvocab_size = 316")
    words = [runs["en"], runs["sw"], "--config", tmp_path / "how.toml", "--output", tmp_path / "p"]
    succeeded(run("parity", *words))
    merges, _ = expected(60, global_merges=20, window=1000, alpha=1.5)
    assert Tokenizer.load(tmp_path / "p").merges == merges
