"""Worker processes on this machine.

Workers are forked by a process that does nothing else (`executors/fork_server.py`), never by the coordinator. Each has
a pipe of its own, so that a worker that dies, at whatever moment, can neither block nor confuse another. A task whose
worker died, or raised something that is not a `PipelineError`, is tried again in a fresh process, three times in all.
"""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait

from pipeline.base import log
from pipeline.base.errors import PipelineError, WorkerError
from pipeline.executors import (
    DEFAULT_SETUP,
    ONE_CORE,
    ClusterUse,
    Need,
    Node,
    Result,
    SharedHere,
    Task,
    WorkerSetup,
    ignore_notice,
    ignore_progress,
)
from pipeline.executors.attempts import Attempts
from pipeline.executors.fork_server import FORK, NUMBER_BYTES

_log = logging.getLogger(__name__)
_START = (
    "import sys, json; descriptor, sys.path[:], *names = map(json.loads, sys.argv[1:]); "
    "from pipeline.executors.fork_server import main; main(descriptor, *names)"
)


class _ForkServer:
    """The coordinator's side of `executors/fork_server.py`. Every method may raise OSError: the process is gone."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._control, theirs = socket.socketpair()
        words = [theirs.fileno(), sys.path, list(setup.preload), list(setup.absent)]
        # It and the workers inherit the blocked signal: Ctrl-C is the coordinator's, from the first instruction on.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with theirs, _no_room():
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _START, *map(json.dumps, words)],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={**setup.environment, **os.environ},
                )
        except BaseException:
            self._control.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def fork(self, pipe: Connection) -> int:
        """Start a worker that serves this pipe; its process id."""
        socket.send_fds(self._control, [FORK], [pipe.fileno()])
        process = self._answer()
        if process < 0:
            raise _no_worker(os.strerror(-process))
        return process

    def wait(self, process: int) -> int:
        """The exit status of a worker that has ended, or is just about to."""
        self._control.sendall(process.to_bytes(NUMBER_BYTES))
        return self._answer()

    def _answer(self) -> int:
        answer = self._control.recv(NUMBER_BYTES, socket.MSG_WAITALL)
        if len(answer) < NUMBER_BYTES:
            raise EOFError("the process that forks workers is gone")
        return int.from_bytes(answer, signed=True)

    def close(self) -> None:
        """End the process; its workers are not concerned."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def _no_worker(reason: object) -> WorkerError:
    return WorkerError(f"no worker process can be started: {reason}; ask for fewer --workers")


@contextmanager
def _no_room() -> Iterator[None]:
    """Say in one line that the system gives no more processes or pipes."""
    try:
        yield
    except OSError as error:
        raise _no_worker(error.strerror or error) from None


@dataclass(eq=False)
class _Worker:
    process: int
    server: _ForkServer
    connection: Connection
    task: int = -1  # index of the task in hand
    progress: int = 0  # how much of it was reported

    def stop(self) -> str:
        """End the process, however busy; says how it ended."""
        self.connection.close()
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        try:
            status = self.server.wait(self.process)
        except (EOFError, OSError):
            return "was lost"
        if status == -signal.SIGKILL:
            return "was killed by signal 9, as the system does where memory ends: give it more, or fewer --workers"
        return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


class LocalExecutor:
    """At most `workers()` processes, kept from one `run` to the next; a context manager, which ends them.

    They begin to start when the context is entered, beside whatever the caller does next.
    """

    def __init__(self, workers: Callable[[], int], setup: WorkerSetup = DEFAULT_SETUP) -> None:
        self._workers = workers
        self._setup = setup
        self._idle: list[_Worker] = []
        self._retries = 0
        self.on_notice: Callable[[str], None] = ignore_notice

    @property
    def retries(self) -> int:
        """See `Executor.retries`."""
        return self._retries

    def nodes(self) -> Sequence[Node]:
        """See `Executor.nodes`."""
        return ()

    def used(self) -> ClusterUse | None:
        """See `Executor.used`."""
        return None

    def share(self, data: bytes) -> SharedHere:
        """See `Executor.share`."""
        return SharedHere(data)

    def __enter__(self) -> "LocalExecutor":
        self._server = _ForkServer(self._setup)
        return self

    def __exit__(self, *_: object) -> None:
        self._keep_idle(0)
        self._server.close()

    def run(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        on_progress: Callable[[int], None] = ignore_progress,
        *,
        at_once: int | None = None,
        need: Need = ONE_CORE,  # noqa: ARG002 - there is one machine
    ) -> Iterator[tuple[int, Result]]:
        """See `Executor.run`. Leaving the iteration early stops the workers that are at work."""
        workers = min(self._workers(), at_once or len(tasks))
        waiting = deque(range(len(tasks)))
        attempts = Attempts(tasks)
        busy: dict[Connection, _Worker] = {}
        self._keep_idle(
            max(1, min(workers, len(tasks)))
        )  # one is kept whatever comes: its imports, and what its task left, are warm

        def hand_out() -> None:
            while waiting and len(busy) < workers:
                task = waiting.popleft()
                again = attempts.has_failed(task)
                if again and self._idle:  # what failed is tried in a fresh process, not in one that is at hand
                    self._idle.pop().stop()
                worker = self._idle.pop() if self._idle and not again else self._start()
                worker.task, worker.progress = task, 0
                busy[worker.connection] = worker
                with suppress(BrokenPipeError, ConnectionResetError):  # a dead worker is found by its silence
                    worker.connection.send((function, tasks[worker.task]))

        def failed(worker: _Worker, reason: str) -> None:
            on_progress(-worker.progress)
            attempts.failed(worker.task, reason)
            self._retries += 1
            waiting.append(worker.task)

        try:
            hand_out()
            while busy:
                for ready in wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]  # wait() gives back what it was given
                    try:
                        kind, value = worker.connection.recv()
                    except (EOFError, OSError):
                        del busy[worker.connection]
                        failed(worker, f"its worker process {worker.stop()}")
                        continue
                    if kind == "log":
                        log.relay(value)
                    elif kind == "progress":
                        worker.progress += value
                        on_progress(value)
                    elif kind == "done":
                        index = worker.task
                        self._idle.append(busy.pop(worker.connection))
                        hand_out()  # before the result is looked at: no worker waits for the coordinator
                        yield index, value
                    elif kind == "error":
                        error: PipelineError = value
                        raise error
                    else:
                        _log.error("%s raised:\n%s", tasks[worker.task], value)
                        del busy[worker.connection]
                        worker.stop()
                        failed(worker, value.strip().splitlines()[-1])
                hand_out()
        finally:
            for worker in busy.values():
                worker.stop()

    def _start(self) -> _Worker:
        with _no_room():
            ours, theirs = Pipe()
        with theirs:
            try:
                process = self._server.fork(theirs)
            except (EOFError, OSError):  # somebody killed it
                self._server.close()
                self._server = _ForkServer(self._setup)
                process = self._fork_again(theirs)
        return _Worker(process, self._server, ours)

    def _fork_again(self, pipe: Connection) -> int:
        try:
            return self._server.fork(pipe)
        except (EOFError, OSError) as error:
            raise WorkerError(
                f"no worker process can be started ({error}); run the same command again to go on"
            ) from None

    def _keep_idle(self, number: int) -> None:
        while len(self._idle) > number:
            self._idle.pop().stop()
