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

import killing
import psutil
import pytest
from killing import CASES, Case, Kept, KillAt, command, counters, ended, model, require_clean, start

KILLED = -signal.SIGKILL
# Stage -> the file whose appearance begins it; a kill comes some time later.
STAGES = {
    "planning": ".",
    "counting": "run.json",
    "combining": "counts/000006.parquet",
    "merging": "counter.parquet",
    "exporting": "merges.parquet",
    "reporting": "report.txt",
}
# Every stage with what is killed in it.
MOMENTS = list(itertools.product(STAGES, ("all", "coordinator", "server", "worker")))


class Trained:
    """A case's corpus, and what training it gives when nobody interferes."""

    def __init__(self, case: Case, home: Path) -> None:
        self.case, self.home = case, home
        (home / "corpus").mkdir()
        self.inputs = case.make(home / "corpus")
        started = time.monotonic()
        assert ended(start(self.command(home / "whole", 2))) == 0
        self.duration_s = time.monotonic() - started
        self.model = model(home / "whole")
        self.chunks = len(counters(home / "whole"))
        assert self.chunks > 6

    def command(self, output: Path, workers: int) -> list[str]:
        return command(self.case, self.inputs, output, workers)

    def finish(self, output: Path, workers: int) -> None:
        """Run to the end what was killed; nothing that was whole is done again."""
        kept = Kept.of(output)
        assert ended(start(self.command(output, workers))) == 0
        kept.require(output)
        require_clean(output)
        assert model(output) == self.model
        assert len(counters(output)) == self.chunks


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(request.param, tmp_path_factory.mktemp("killed"))


def _kill_at_changes(trained: Trained, library: Path, home: Path, kills: int, seed: int) -> int:
    """Kill at changes spread over all of them, each time again and again until the run ends; how many kills it was.

    The changes of a whole run are counted first. Half of the directories are worked on beside the other half.
    """
    first = KillAt(library, home / "counter")
    assert ended(start(trained.command(home / "counted", 2), **first.environment(home / "counted", 0))) == 0
    changes = first.changes
    assert changes > 5 * trained.chunks

    def suffer(number: int) -> int:
        choose = random.Random(seed + number)
        killer = KillAt(library, home / f"counter-{number}")
        output = home / f"killed-{number}"
        done, at = 0, max(1, round(changes * (number + choose.random()) / -(-kills // 2)))
        for _ in range(3):
            kept = Kept.of(output)
            workers = choose.choice([1, 2, 4])
            status = ended(start(trained.command(output, workers), **killer.environment(output, at)))
            kept.require(output)
            if status == 0:
                break
            done += 1
            at = choose.randint(1, changes // 2)
        trained.finish(output, choose.choice([1, 2, 4]))
        shutil.rmtree(output)
        return done

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(suffer, range(-(-kills // 2))))


def _kill_at_moments(trained: Trained, home: Path, kills: int, seed: int) -> set[str]:
    """Kill some process or all of them at random moments of different stages; the stages that a run did not survive."""
    moments = random.Random(seed).sample(MOMENTS, kills)

    def suffer(number: int) -> str:
        choose = random.Random(seed + number)
        output = home / f"killed-{number}"
        stage, target = moments[number]
        workers = choose.choice([1, 2, 4])
        process = start(trained.command(output, workers))
        while not (output / STAGES[stage]).exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(choose.uniform(0, 0.2) * trained.duration_s)
        _kill(process.pid, target, choose)
        if ended(process) == KILLED:
            assert target in ("all", "coordinator")
        else:
            stage = ""
            assert model(output) == trained.model
        trained.finish(output, workers)
        shutil.rmtree(output)
        return stage

    with ThreadPoolExecutor(2) as pool:
        return set(pool.map(suffer, range(kills)))


def _kill(coordinator: int, target: str, choose: random.Random) -> None:
    try:
        process = psutil.Process(coordinator)
        servers = process.children()
        workers = [worker for server in servers for worker in server.children()]
        if target == "all":
            os.killpg(coordinator, signal.SIGKILL)
        elif target == "coordinator":
            process.kill()
        elif target == "server" and servers:
            servers[0].kill()
        elif target == "worker" and workers:
            choose.choice(workers).kill()
    except (psutil.NoSuchProcess, ProcessLookupError):
        return  # it had ended


def test_killed_at_changes_of_files(trained: Trained, library: Path, tmp_path: Path) -> None:
    assert _kill_at_changes(trained, library, tmp_path, kills=6, seed=1) >= 5


def test_killed_at_moments(trained: Trained, tmp_path: Path) -> None:
    _kill_at_moments(trained, tmp_path, kills=3, seed=2)


@pytest.mark.slow
def test_killed_at_hundreds_of_changes_of_files(trained: Trained, library: Path, tmp_path: Path) -> None:
    assert _kill_at_changes(trained, library, tmp_path, kills=50, seed=3) >= 40


@pytest.mark.slow
def test_killed_at_hundreds_of_moments(trained: Trained, tmp_path: Path) -> None:
    stages = _kill_at_moments(trained, tmp_path, kills=len(MOMENTS), seed=4)
    assert stages >= {"planning", "counting", "combining"}


def test_a_killed_run_is_no_obstacle_and_a_running_one_is(tmp_path: Path) -> None:
    """The lock is the system's: it dies with its process, however that ends; the file that it leaves says nothing."""
    trained = Trained(CASES[0], tmp_path)
    output = tmp_path / "run"
    words = trained.command(output, 1)
    process = start(words)
    while not counters(output):
        assert process.poll() is None
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGSTOP)
    second = subprocess.run(words, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert f"another process is working on {output}" in second.stderr
    os.killpg(process.pid, signal.SIGKILL)
    assert ended(process) == KILLED
    assert (output / ".lock").exists()
    trained.finish(output, 1)


def test_cases_have_different_names() -> None:
    assert len({case.name for case in killing.CASES}) == len(killing.CASES)
