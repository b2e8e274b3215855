"""Killed at any moment, in any stage, with any number of workers: the next run goes on and gives the same bytes."""

import itertools
import os
import random
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from amount import FULL
from command import files_in, refused
from faults import Faults
from killing import CASES, Case, Kept, command, counters, ended, kill, require_clean, results, start

KILLED = -signal.SIGKILL
# The files whose appearance begins a stage, from planning to reporting; a kill comes some time later.
STAGES = (".", "run.json", "counts/LAST", "counter.parquet", "merges.parquet", "report.txt")
# Every stage with what is killed in it.
MOMENTS = list(itertools.product(STAGES, ("all", "coordinator", "server", "worker")))


class Trained:
    """A case's corpus, and what its command gives when nobody interferes."""

    def __init__(self, case: Case, home: Path) -> None:
        self.case, self.home = case, home
        (home / "corpus").mkdir()
        self.inputs = case.make(home / "corpus")
        self.finished = home / "finished" if case.overwrites else None
        if self.finished is not None:
            (home / "before").mkdir()
            before = Case("before", CASES[0].make, CASES[0].options, sizes=(500, 300))
            assert ended(start(command(before, before.make(home / "before"), self.finished, 2))) == 0
        started = time.monotonic()
        assert ended(self.start(home / "whole", 2)) == 0
        self.duration_s = time.monotonic() - started
        self.results = results(home / "whole")
        self.chunks = len(counters(home / "whole"))
        assert self.chunks > 6 or case.command == "combine" or case.spills
        assert not case.spills or ": part 1 of " in (home / "whole" / "log.txt").read_text()

    def begin(self, output: Path) -> None:
        """Put there what is overwritten."""
        if self.finished is not None and not output.exists():
            shutil.copytree(self.finished, output)

    def start(self, output: Path, workers: int, **environment: str) -> "subprocess.Popen[bytes]":
        self.begin(output)
        words = command(self.case, self.inputs, output, workers)
        return start(words, **environment)

    def stage(self, output: Path, name: str) -> Path:
        return output / name.replace("LAST", sorted(counters(self.home / "whole"))[min(6, self.chunks - 1)])

    def require_nothing_lost(self, output: Path, before: dict[str, bytes]) -> None:
        """What a killed combination was to replace is as it was, unless all that takes its place is on the disk."""
        if self.case.command == "combine" and _everything(output) != before:
            ready = (*output.glob(".counter.parquet.*.whole.part"), *output.glob("counter.parquet"))
            assert any(path.read_bytes() == self.results["counter.parquet"] for path in ready)

    def finish(self, output: Path, workers: int) -> None:
        """Run to the end what was killed; nothing that was whole is done again."""
        kept = Kept(output)
        assert ended(self.start(output, workers)) == 0
        if self.case.command != "combine":
            kept.require()
        require_clean(output)
        assert results(output) == self.results
        assert len(counters(output)) == self.chunks


def _everything(run: Path) -> dict[str, bytes]:
    """The files of a run, but for its log and what is half done."""
    return {name: data for name, data in files_in(run).items() if not Path(name).name.startswith(".")}


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(request.param, tmp_path_factory.mktemp("killed"))


def many(every: int, *numbers: int) -> list[Any]:
    """All cases, or each so many-th; they are slow."""
    return [pytest.param(case, *numbers, marks=pytest.mark.slow) for case in CASES[:: 1 if FULL else every]]


def name_of(value: object) -> str | None:
    return value.name if isinstance(value, Case) else None


@pytest.mark.parametrize(
    ("trained", "runs", "seed", "least"),
    [
        *many(3, 2, 1, 2),
        *many(6, 6, 3, 9),  # with the moments below, hundreds of kills
    ],
    indirect=["trained"],
    ids=name_of,
)
def test_killed_at_changes_of_files(
    trained: Trained, library: Path, tmp_path: Path, runs: int, seed: int, least: int
) -> None:
    """Kill runs at changes spread over all of them, each up to three times until it ends.

    The changes of a whole run are counted first. Half of the runs are worked on beside the other half.
    """
    first = Faults(library, tmp_path / "counter")
    assert ended(trained.start(tmp_path / "counted", 2, **first.environment(tmp_path / "counted", 0))) == 0
    changes = first.changes
    assert changes > (20 if trained.case.overwrites else 5 * trained.chunks)

    def suffer(number: int) -> int:
        choose = random.Random(seed + number)
        killer = Faults(library, tmp_path / f"counter-{number}")
        output = tmp_path / f"killed-{number}"
        done, at = 0, max(1, round(changes * (number + choose.random()) / runs))
        for _ in range(3):
            kept = Kept(output)
            workers = choose.choice([1, 2, 4])
            trained.begin(output)
            before = _everything(output)
            status = ended(trained.start(output, workers, **killer.environment(output, at)))
            if trained.case.command != "combine":
                kept.require()
            trained.require_nothing_lost(output, before)
            if status == 0:
                break
            done += 1
            at = choose.randint(1, changes // 2)
        trained.finish(output, choose.choice([1, 2, 4]))
        shutil.rmtree(output)
        return done

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(suffer, range(runs))) >= least


@pytest.mark.parametrize(
    ("trained", "kills", "seed", "least"),
    [
        *many(4, 2, 2, 0),
        *many(6, len(MOMENTS) // 3, 4, 1),
    ],
    indirect=["trained"],
    ids=name_of,
)
def test_killed_at_moments(trained: Trained, tmp_path: Path, kills: int, seed: int, least: int) -> None:
    """Kill some process or all of them at random moments of different stages, of which so many end a run.

    A run that is overwritten has all files that begin a stage: there it is any moment.
    """
    moments = random.Random(f"{seed} {trained.case.name}").sample(MOMENTS, kills)

    def suffer(number: int) -> bool:
        choose = random.Random(seed + number)
        output = tmp_path / f"killed-{number}"
        stage, target = moments[number]
        workers = choose.choice([1, 2, 4])
        process = trained.start(output, workers)
        while not trained.stage(output, stage).exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(choose.uniform(0, 0.9 if trained.case.overwrites else 0.2) * trained.duration_s)
        kill(process.pid, target, choose)
        killed = ended(process) == KILLED
        if killed:
            assert target in ("all", "coordinator")
        else:
            assert results(output) == trained.results
        trained.finish(output, workers)
        shutil.rmtree(output)
        return killed

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(suffer, range(kills))) >= least


@pytest.mark.parametrize("trained", CASES[:1], indirect=True, ids=name_of)
def test_killed_run_frees_the_directory(trained: Trained, tmp_path: Path) -> None:
    """The lock is the system's: it dies with its process, however that ends; the file that it leaves says nothing."""
    output = tmp_path / "run"
    words = command(trained.case, trained.inputs, output, 1)
    process = start(words)
    while not counters(output):
        assert process.poll() is None
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGSTOP)
    second = subprocess.run(words, capture_output=True, text=True, check=False)
    assert f"another process is working on {output}" in refused(second, 1)
    os.killpg(process.pid, signal.SIGKILL)
    assert ended(process) == KILLED
    assert (output / ".lock").exists()
    trained.finish(output, 1)
