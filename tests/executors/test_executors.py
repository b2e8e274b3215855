"""Executors: results, errors, killed workers, retries; of the local one that no process outlives the coordinator."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
import worker_tasks
from command import script

from bpe_pipeline.base.errors import InputError, WorkerError
from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.executors import MAX_ATTEMPTS, Executor, WorkerSetup, ray
from bpe_pipeline.executors.local import LocalExecutor


@pytest.fixture(scope="module", params=["fork", pytest.param("ray", marks=pytest.mark.cluster)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """One of each kind."""
    if request.param == "ray":
        yield request.getfixturevalue("on_ray")
        return
    with LocalExecutor(lambda: 3) as executor:
        yield executor


def test_every_task_returns_its_result_once_from_a_few_other_processes_and_reports_progress(executor: Executor) -> None:
    progress: list[int] = []
    results = dict(executor.run(worker_tasks.square, range(40), progress.append))
    assert results == {number: number * number for number in range(40)}
    assert sum(progress) == sum(range(40))
    assert dict(executor.run(worker_tasks.square, [])) == {}
    processes = set(dict(executor.run(worker_tasks.process_after_a_while, range(9))).values())
    assert len(processes) >= 3
    assert os.getpid() not in processes
    assert len(processes) == 3 or executor.nodes()


def test_pipeline_error_ends_the_run_and_names_the_node_if_there_are_several(executor: Executor) -> None:
    where = r" \(on node .+\)" if executor.nodes() else ""
    with pytest.raises(InputError, match=rf"three\.txt cannot be read; give another{where}$"):
        list(executor.run(worker_tasks.refuse, range(6)))


def test_crashing_task_is_retried_and_then_named(executor: Executor) -> None:
    before = executor.retries
    message = rf"^7 failed {MAX_ATTEMPTS} times.*ValueError: unlucky 7.*run the same command"
    with pytest.raises(WorkerError, match=message):
        list(executor.run(worker_tasks.raise_value_error, [7]))
    assert executor.retries - before == MAX_ATTEMPTS - 1


def test_killed_worker_costs_one_attempt_and_its_progress_is_subtracted(executor: Executor, tmp_path: Path) -> None:
    progress: list[int] = []
    before = executor.retries
    results = dict(executor.run(worker_tasks.die_first_time, [tmp_path / name for name in "abc"], progress.append))
    assert results == {0: "a", 1: "b", 2: "c"}
    assert sum(progress) == 30
    assert min(progress) < 0 or executor.nodes()  # Ray's mailbox may not have it yet
    assert executor.retries - before == 3


def test_failed_task_is_retried_in_a_fresh_process_and_one_that_always_dies_is_named(tmp_path: Path) -> None:
    tasks = [tmp_path / "marker", None, None]
    processes = worker_tasks.results_of(2, worker_tasks.process_but_not_the_first, tasks)
    assert processes[0] not in (processes[1], processes[2])
    with pytest.raises(WorkerError, match="killed by signal 9"):
        worker_tasks.results_of(1, worker_tasks.die_always, [1])


@pytest.fixture
def others() -> set[psutil.Process]:
    """Processes that other tests have started, such as a server."""
    return set(psutil.Process().children(recursive=True))


def test_closing_the_results_stops_the_workers(others: set[psutil.Process]) -> None:
    with LocalExecutor(lambda: 2) as executor:
        results = executor.run(worker_tasks.process_id, range(1000))
        _, process = next(results)
        results.close()
        children = set(psutil.Process().children(recursive=True)) - others
        assert dict(executor.run(worker_tasks.square, [3])) == {0: 9}
    assert not any(child.is_running() for child in children)
    assert not psutil.pid_exists(process)


def test_workers_are_kept_from_run_to_run() -> None:
    with LocalExecutor(lambda: 1) as executor:
        found = [dict(executor.run(worker_tasks.process_id, range(count))).values() for count in (2, 0, 2)]
    assert len({process for run in found for process in run}) == 1


def test_the_coordinator_prepares_once_while_tasks_run() -> None:
    called = []
    with LocalExecutor(lambda: 1) as executor:
        executor.meanwhile(lambda: called.append("once"))
        for tasks, calls in (([], []), ([3], ["once"]), ([3], ["once"])):
            assert list(executor.run(worker_tasks.square, tasks)) == [(0, 9)] * len(tasks)
            assert called == calls


def test_workers_have_preloaded_modules_no_absent_ones_and_what_they_import_while_they_wait() -> None:
    missing = worker_tasks.import_what_is_missing
    setup = WorkerSetup(
        preload=[worker_tasks.import_wave, missing],
        idle=[missing, worker_tasks.import_colorsys],
        absent=["chunk_of_nothing", "imghdr"],
    )
    with LocalExecutor(lambda: 1, setup) as executor:
        asked = ["wave", "chunk_of_nothing", "imghdr"]
        assert list(dict(executor.run(worker_tasks.is_loaded, asked)).values()) == [True, False, False]
        _wait_until(lambda: [*executor.run(worker_tasks.is_loaded, ["colorsys"])] == [(0, True)])


def test_killed_fork_server_is_replaced(others: set[psutil.Process]) -> None:
    with LocalExecutor(lambda: 2) as executor:
        [(_, process)] = executor.run(worker_tasks.process_id, [0])
        [server] = set(psutil.Process().children()) - others
        assert [child.pid for child in server.children()] == [process]
        server.kill()
        assert dict(executor.run(worker_tasks.square, range(6))) == {n: n * n for n in range(6)}
        assert set(psutil.Process().children()) - others != {server}


def test_first_worker_starts_before_its_task_and_ends_with_an_executor_without_tasks(
    others: set[psutil.Process],
) -> None:
    setup = WorkerSetup(idle=[worker_tasks.import_colorsys])
    with LocalExecutor(lambda: 1, setup) as executor:
        [server] = set(psutil.Process().children()) - others
        server.kill()
        assert dict(executor.run(worker_tasks.square, range(6))) == {n: n * n for n in range(6)}
    with LocalExecutor(lambda: 1, setup):
        [server] = set(psutil.Process().children()) - others
        _wait_until(lambda: len(server.children()) == 1)
        unused = server.children()
    assert psutil.wait_procs(unused, timeout=10)[1] == []


def test_command_counts_where_ended_processes_are_not_waited_for(tmp_path: Path) -> None:
    """Some supervisors start programs so; a process that ends is gone at once then."""
    (tmp_path / "a.txt").write_text("a word and a word")
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    words = ["-P", "-m", "bpe_pipeline", "count", tmp_path / "a.txt", "--output", tmp_path / "run", "--quiet"]
    assert script(ignoring, sys.executable, *words) == f"{tmp_path / 'run'}\n"


_REFUSED_AGAIN = """
from bpe_pipeline.base.errors import WorkerError
from bpe_pipeline.executors import local

def refuse(setup):
    raise BlockingIOError(11, "Resource temporarily unavailable")

try:
    with local.LocalExecutor(lambda: 1) as executor:
        executor._server._process.kill()
        executor._server._process.wait()
        local._ForkServer = refuse
        list(executor.run(len, ["a"]))
except WorkerError as error:
    print(error)
"""


def test_executor_whose_processes_cannot_be_started_again_says_so() -> None:
    assert re.search("no worker process can be started.*use fewer --workers", script(_REFUSED_AGAIN))


def test_fork_server_has_one_thread(others: set[psutil.Process]) -> None:
    """With the modules that workers of training preload: a fork copies only the thread that forks."""
    with LocalExecutor(lambda: 1, TRAINING) as executor:
        assert [*executor.run(worker_tasks.is_loaded, ["bpe_pipeline.merges.merge_worker"])] == [(0, True)]
        [server] = set(psutil.Process().children()) - others
        assert server.num_threads() == 1


def test_workers_end_with_a_killed_coordinator(tmp_path: Path) -> None:
    marker = tmp_path / "worker"
    program = "import sys, worker_tasks, pathlib; worker_tasks.results_of(1, worker_tasks.sleep_for_ever, "
    program += "[pathlib.Path(sys.argv[1])])"
    environment = os.environ | {"PYTHONPATH": str(Path(worker_tasks.__file__).parent)}
    coordinator = subprocess.Popen([sys.executable, "-P", "-c", program, str(marker)], env=environment)
    _wait_until(lambda: marker.exists() and marker.read_text() != "")
    worker = int(marker.read_text())
    assert psutil.pid_exists(worker)
    coordinator.send_signal(signal.SIGKILL)
    coordinator.wait()
    _wait_until(lambda: not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "timeout"
        time.sleep(0.02)


def test_ray_does_not_take_over_what_the_program_does_with_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ray.init` sets a handler of its own, which exits without a word."""

    def init(**_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    stand_in = Mock(init=init, is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    monkeypatch.setitem(sys.modules, "ray.job_config", Mock())
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert ray._connect("auto")
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, before)
