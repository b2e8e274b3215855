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
import pytest
from killing import CASES, Case, Kept, KillAt, command, counters, ended, kill, require_clean, results, start

KILLED = -signal.SIGKILL
# Stage -> the file whose appearance begins it; a kill comes some time later.
STAGES = {
    "planning": ".",
    "counting": "run.json",
    "combining": "counts/LAST.parquet",
    "merging": "counter.parquet",
    "exporting": "merges.parquet",
    "reporting": "report.txt",
}
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
        assert self.chunks > 6 or case.command == "import" or case.spills
        assert not case.spills or ": part 1 of " in (home / "whole" / "log.txt").read_text()

    def begin(self, output: Path) -> None:
        """Put there what is overwritten."""
        if self.finished is not None and not output.exists():
            shutil.copytree(self.finished, output)

    def start(self, output: Path, workers: int, **environment: str) -> "subprocess.Popen[bytes]":
        self.begin(output)
        stdin = self.home / "corpus" / "stdin"
        words = command(self.case, self.inputs, output, workers)
        return start(words, stdin if "-" in self.inputs else None, **environment)

    def stage(self, output: Path, name: str) -> Path:
        return output / STAGES[name].replace("LAST", f"{min(6, self.chunks - 1):06d}")

    def require_nothing_lost(self, output: Path, before: dict[str, bytes]) -> None:
        """What a killed import was to replace is as it was, unless all that takes its place is on the disk."""
        if self.case.command == "import" and _everything(output) != before:
            ready = (*output.glob(".counter.parquet.*.whole.part"), *output.glob("counter.parquet"))
            assert any(path.read_bytes() == self.results["counter.parquet"] for path in ready)

    def finish(self, output: Path, workers: int) -> None:
        """Run to the end what was killed; nothing that was whole is done again."""
        kept = Kept.of(output)
        assert ended(self.start(output, workers)) == 0
        if self.case.command != "import":
            kept.require(output)
        require_clean(output)
        assert results(output) == self.results
        assert len(counters(output)) == self.chunks


def _everything(run: Path) -> dict[str, bytes]:
    """The files of a run, but for its log and what is half done."""
    files = (path for path in run.rglob("[!.]*") if path.is_file() and path.name != "log.txt")
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(request.param, tmp_path_factory.mktemp("killed"))


def _kill_at_changes(trained: Trained, library: Path, home: Path, runs: int, seed: int) -> int:
    """Kill runs at changes spread over all of them, each up to three times until it ends; how many kills it was.

    The changes of a whole run are counted first. Half of the runs are worked on beside the other half.
    """
    first = KillAt(library, home / "counter")
    assert ended(trained.start(home / "counted", 2, **first.environment(home / "counted", 0))) == 0
    changes = first.changes
    assert changes > (20 if trained.case.overwrites else 5 * trained.chunks)

    def suffer(number: int) -> int:
        choose = random.Random(seed + number)
        killer = KillAt(library, home / f"counter-{number}")
        output = home / f"killed-{number}"
        done, at = 0, max(1, round(changes * (number + choose.random()) / runs))
        for _ in range(3):
            kept = Kept.of(output)
            workers = choose.choice([1, 2, 4])
            trained.begin(output)
            before = _everything(output)
            status = ended(trained.start(output, workers, **killer.environment(output, at)))
            if trained.case.command != "import":
                kept.require(output)
            trained.require_nothing_lost(output, before)
            if status == 0:
                break
            done += 1
            at = choose.randint(1, changes // 2)
        trained.finish(output, choose.choice([1, 2, 4]))
        shutil.rmtree(output)
        return done

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(suffer, range(runs)))


def _kill_at_moments(trained: Trained, home: Path, kills: int, seed: int) -> set[str]:
    """Kill some process or all of them at random moments of different stages; the stages that a run did not survive.

    A run that is overwritten has all files that begin a stage: there it is any moment.
    """
    moments = random.Random(f"{seed} {trained.case.name}").sample(MOMENTS, kills)

    def suffer(number: int) -> str:
        choose = random.Random(seed + number)
        output = home / f"killed-{number}"
        stage, target = moments[number]
        workers = choose.choice([1, 2, 4])
        process = trained.start(output, workers)
        while not trained.stage(output, stage).exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(choose.uniform(0, 0.9 if trained.case.overwrites else 0.2) * trained.duration_s)
        kill(process.pid, target, choose)
        if ended(process) == KILLED:
            assert target in ("all", "coordinator")
        else:
            stage = ""
            assert results(output) == trained.results
        trained.finish(output, workers)
        shutil.rmtree(output)
        return stage

    with ThreadPoolExecutor(2) as pool:
        return set(pool.map(suffer, range(kills)))


@pytest.mark.parametrize("trained", CASES[:1], indirect=True, ids=lambda case: case.name)
def test_killed_at_a_change_of_a_file(trained: Trained, library: Path, tmp_path: Path) -> None:
    assert _kill_at_changes(trained, library, tmp_path, runs=1, seed=1) >= 1


@pytest.mark.slow
@pytest.mark.one_of(2)
def test_killed_at_changes_of_files(trained: Trained, library: Path, tmp_path: Path) -> None:
    assert _kill_at_changes(trained, library, tmp_path, runs=2, seed=1) >= 2


@pytest.mark.parametrize("trained", CASES[:1], indirect=True, ids=lambda case: case.name)
def test_killed_at_a_moment(trained: Trained, tmp_path: Path) -> None:
    _kill_at_moments(trained, tmp_path, kills=1, seed=2)


@pytest.mark.slow
@pytest.mark.one_of(3)
def test_killed_at_moments(trained: Trained, tmp_path: Path) -> None:
    _kill_at_moments(trained, tmp_path, kills=2, seed=2)


@pytest.mark.slow
@pytest.mark.one_of(4)
def test_killed_at_hundreds_of_changes_of_files(trained: Trained, library: Path, tmp_path: Path) -> None:
    """Of all cases together: about a hundred and fifty, beside those of the default suite and the moments below."""
    assert _kill_at_changes(trained, library, tmp_path, runs=6, seed=3) >= 9


@pytest.mark.slow
@pytest.mark.one_of(4)
def test_killed_at_hundreds_of_moments(trained: Trained, tmp_path: Path) -> None:
    assert _kill_at_moments(trained, tmp_path, kills=len(MOMENTS) // 3, seed=4) - {""}


def test_killed_run_frees_the_directory(tmp_path: Path) -> None:
    """The lock is the system's: it dies with its process, however that ends; the file that it leaves says nothing."""
    trained = Trained(CASES[0], tmp_path)
    output = tmp_path / "run"
    words = command(trained.case, trained.inputs, output, 1)
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
