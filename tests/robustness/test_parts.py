"""Arrays of processes that share one directory, killed at any moment, with any N: the same bytes as one process."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import killing
import peers
import pytest
from amount import FULL
from command import files_in, refused, run, succeeded
from killing import Case, counters, ended, require_clean, results, start

import bpe_pipeline

pytestmark = pytest.mark.processes
ENDS = (0, -signal.SIGKILL, 128 + signal.SIGTERM, -signal.SIGTERM)
LIMIT_S = 10.0  # after SIGTERM


def _files(directory: Path) -> list[str]:
    for seed in range(12):
        (directory / f"{seed:02}.txt").write_text(peers.generated_text(seed, 1200), newline="")
    return [str(directory)]


CASES = [
    Case("text", _files, ("--chunk-size", "9KiB")),
    *(
        replace(case, options=case.options[:4])
        for case in killing.CASES
        if case.name in ("many formats", "regex", "spills")
    ),
]


class Array:
    """Tasks of arrays that count a corpus, one array after the other, each with another N, and what disturbs them."""

    def __init__(self, case: Case, home: Path, seed: int) -> None:
        self.choose, self.home, self.kills = random.Random(seed), home, 0
        (home / "corpus").mkdir()
        self.inputs = case.make(home / "corpus")
        self.case = case

    def words(self, output: Path, *more: str) -> list[str]:
        return [
            *(sys.executable, "-P", "-m", "bpe_pipeline", "count", *self.inputs, "--output", str(output)),
            *(*self.case.options, "--quiet", "--workers", str(self.choose.choice([1, 2])), *more),
        ]

    def whole(self) -> Path:
        assert ended(start(self.words(self.home / "whole"))) == 0
        return self.home / "whole"

    def tasks(self, output: Path, count: int) -> "list[subprocess.Popen[bytes]]":
        """Start the tasks of an array in some order; one of them twice, some not at all."""
        first = self.choose.choice([0, 1])
        numbers = [*range(first, first + count), self.choose.randrange(first, first + count)]
        self.choose.shuffle(numbers)
        return [
            start(self.words(output, "--part", f"{number}/{count}"))
            for number in numbers[: self.choose.randint(1, len(numbers))]
        ]

    def disturb(self, tasks: "list[subprocess.Popen[bytes]]", over_s: float) -> None:
        """Kill some tasks, or ask them to end, as a limit of time does, with or without their workers."""
        for task in tasks:
            time.sleep(self.choose.uniform(0, over_s / len(tasks)))
            how = self.choose.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, None])
            if how is None or task.poll() is not None:
                continue
            (os.killpg if self.choose.random() < 0.5 else os.kill)(task.pid, how)
            self.kills += 1

    def disturbed(self, kills: int, over_s: float) -> Iterator[Path]:
        """Yield directories in which the tasks of arrays were disturbed, until there were so many kills."""
        for round_ in itertools.count():
            if self.kills >= kills:
                return
            output = self.home / f"run-{round_}"
            for _ in range(self.choose.randint(1, 3)):
                tasks = self.tasks(output, self.choose.randint(1, 4))
                self.disturb(tasks, over_s)
                self.settle(tasks)
            yield output

    def settle(self, tasks: "list[subprocess.Popen[bytes]]") -> None:
        """Require that each task ends as it should."""
        for task, (_, stderr) in [(task, task.communicate(timeout=120)) for task in tasks]:
            assert b"Traceback" not in stderr, stderr.decode()
            assert task.returncode in ENDS, stderr.decode()


@pytest.mark.parametrize(
    ("case", "kills", "seed"),
    [
        pytest.param(CASES[0], 200 if FULL else 12, 1, marks=pytest.mark.slow),
        *(pytest.param(case, 40 if FULL else 6, 2, marks=pytest.mark.slow) for case in CASES[1:]),
    ],
    ids=lambda value: value.name if isinstance(value, Case) else None,
)
def test_killed_tasks_of_arrays_of_any_size_leave_what_one_process_makes(
    case: Case, kills: int, seed: int, tmp_path: Path
) -> None:
    array = Array(case, tmp_path, seed)
    started = time.monotonic()
    whole = array.whole()
    duration_s = time.monotonic() - started
    for output in array.disturbed(kills, 2 * duration_s):
        kept = counters(output) if output.exists() else {}
        assert ended(start(array.words(output))) == 0
        assert kept.items() <= counters(output).items()
        require_clean(output)
        assert not list(output.glob("log-*"))
        found, right = results(output), results(whole)
        assert counters(output).keys() == counters(whole).keys()
        assert found["report"]["corpus"] == right["report"]["corpus"]
        assert found["counter.parquet"] == right["counter.parquet"]


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False])
def test_sigterm_ends_a_part_soon_and_keeps_what_is_whole(tmp_path: Path, group: bool) -> None:
    """A scheduler sends it to the command alone, or to all of its processes."""
    array = Array(Case("text", _files, ("--chunk-size", "9KiB", "--pattern", r"(?<=x)y|\w+|\W+")), tmp_path, 1)
    output = tmp_path / "run"
    task = start(array.words(output, "--part", "1/2"))
    while not (counters(output) if output.exists() else {}):
        assert task.poll() is None
        time.sleep(0.002)
    started = time.monotonic()
    (os.killpg if group else os.kill)(task.pid, signal.SIGTERM)
    _, stderr = task.communicate(timeout=60)
    assert time.monotonic() - started < LIMIT_S
    assert task.returncode == 128 + signal.SIGTERM
    assert b"interrupted; what is finished is kept" in stderr
    kept = counters(output)
    assert "stopped: KeyboardInterrupt" in (output / "log-1-of-2.txt").read_text()
    assert ended(start(array.words(output, "--part", "2/2"))) == 0
    assert ended(start(array.words(output))) == 0
    assert kept.items() <= counters(output).items()
    assert results(output)["counter.parquet"] == results(array.whole())["counter.parquet"]


@pytest.mark.slow
def test_tasks_that_start_together_make_one_plan(tmp_path: Path) -> None:
    array = Array(Case("text", _files, ("--chunk-size", "9KiB")), tmp_path, 1)
    output = tmp_path / "run"
    with ThreadPoolExecutor(4) as pool:
        tasks = list(pool.map(lambda number: start(array.words(output, "--part", f"{number}/4")), range(4)))
    assert [ended(task) for task in tasks] == [0] * 4
    assert len(counters(output)) > 8
    assert not list(output.glob("counter.parquet"))
    assert ended(start(array.words(output))) == 0
    assert results(output)["counter.parquet"] == results(array.whole())["counter.parquet"]


class Encoding(Array):
    """Tasks of arrays that encode a corpus."""

    def words(self, output: Path, *more: str) -> list[str]:
        if not (self.home / "run").exists():
            words = [
                sys.executable,
                "-P",
                "-m",
                "bpe_pipeline",
                "train",
                *self.inputs,
                "--output",
                str(self.home / "run"),
            ]
            assert ended(start([*words, "--vocab-size", "600", "--quiet"])) == 0
        counting = super().words(output, *more)
        return [*counting[:4], "encode", *counting[5:], "--tokenizer", str(self.home / "run")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [(), ("--shuffle", "--val-fraction", "10%"), ("--sequence-length", "64", "--pack", "best-fit")], ids=str
)
def test_killed_parts_that_encode_leave_what_one_process_writes(options: tuple[str, ...], tmp_path: Path) -> None:
    array = Encoding(Case("text", _files, ("--chunk-size", "9KiB", "--shard-size", "9000", *options)), tmp_path, 3)
    right = files_in(array.whole())
    for output in array.disturbed(20 if FULL else 4, 1.5):
        assert ended(start(array.words(output))) == 0
        found = files_in(output)
        manifests = [json.loads(files.pop("encoding.json")) for files in (found, {**right})]
        assert manifests[0] == manifests[1]
        assert found == {name: data for name, data in right.items() if name != "encoding.json"}


class Combining(Array):
    """Tasks of arrays that combine three runs, with so many pre-tokens that their sum has several partitions."""

    PRE_TOKENS = 150_000

    def words(self, output: Path, *more: str) -> list[str]:
        runs = [self.home / name for name in "abc"]
        for first, home in enumerate(runs):
            if not home.exists():
                numbers = range(first * self.PRE_TOKENS // 2, first * self.PRE_TOKENS // 2 + self.PRE_TOKENS)
                bpe_pipeline.combine({b"%d" % number: number % 97 + 1 for number in numbers}, output=home)
        words = [sys.executable, "-P", "-m", "bpe_pipeline", "combine", *map(str, runs), "--output", str(output)]
        return [*words, *self.case.options, "--quiet", "--workers", str(self.choose.choice([1, 2])), *more]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "kills"),
    [
        ((), 1),
        (("--weight", "1", "--weight", "2.5", "--weight", "3"), 60 if FULL else 6),
    ],
    ids=str,
)
def test_killed_parts_that_combine_leave_the_counter_of_one_process(
    options: tuple[str, ...], kills: int, tmp_path: Path
) -> None:
    array = Combining(Case("text", _files, options), tmp_path, 5)
    right = (array.whole() / "counter.parquet").read_bytes()
    for output in array.disturbed(kills, 1.0):
        assert ended(start(array.words(output))) == 0
        assert (output / "counter.parquet").read_bytes() == right
        assert [path.name for path in output.rglob("*") if "share" in path.name or path.name.startswith("log-")] == []
        require_clean(output)


@pytest.mark.slow
def test_parts_combine_shares_and_the_last_command_joins_them(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in "ab"]
    for first, home in enumerate(runs):
        bpe_pipeline.combine({b"%d" % number: number + 1 for number in range(first, 300_000, 2)}, output=home)
    whole = bpe_pipeline.combine(runs, weights=[1, "2.5"], output=tmp_path / "whole")
    words = ("combine", *runs, "--weight", 1, "--weight", "2.5", "--output", tmp_path / "parts")
    shown = succeeded(run(*words, "--part", "1/2")).stdout
    assert "part   1/2: all 2 shares of it combined here" in shown, shown
    assert "whole  2 of 4 shares combined" in shown
    assert "no, its counts are being combined" in succeeded(run("info", tmp_path / "parts")).stdout
    assert "not completely counted" in refused(run("merge", tmp_path / "parts"), 1)
    other = ("combine", *runs, "--output", tmp_path / "parts", "--part", "2/2")
    assert "holds another run" in refused(run(*other), 1)
    assert "whole  4 of 4 shares combined" in succeeded(run(*words, "--part", "0/2")).stdout
    succeeded(run(*words))
    assert (tmp_path / "parts" / "counter.parquet").read_bytes() == (whole / "counter.parquet").read_bytes()
    again = succeeded(run(*words, "--part", "1/2")).stdout
    assert "0 of its 2 shares combined here, the others before" in again, again
    assert "next   nothing: the counter is complete" in again
