"""Worker processes on this machine.

Workers are forked by a process that does nothing else (`worker.fork_workers`), a new Python, never by the coordinator,
whose threads, and Arrow's, hold locks. Each worker has a pipe of its own, so that one that dies at any moment neither
blocks nor confuses another. (The processes of `multiprocessing` first run the program that calls this package again,
unless it is guarded against that.)
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.reduction import send_handle
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import os_error_as
from bpe_pipeline.executors import DEFAULT_SETUP, Executor, Need, WorkerSetup
from bpe_pipeline.executors.worker import REFUSED, fork_workers

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; import bpe_pipeline; del sys.path[0]; "
    f"from {fork_workers.__module__} import fork_workers; fork_workers(int(sys.argv[1]))"
)


class _ForkServer:
    """The process that forks workers, of this package and no other. Methods raise OSError or EOFError if it is gone."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._workers = 0  # started so far
        self._control, theirs = Pipe()
        arguments = map(str, [theirs.fileno(), Path(__file__).parents[2], *sys.path])
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # inherited: Ctrl-C is for the coordinator
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                env={**setup.environment, **os.environ},
                pass_fds=[theirs.fileno()],
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        self._control.send(setup)

    def start_worker(self) -> "_Worker":
        """Ask for a worker, without waiting for it."""
        ours, theirs = Pipe()
        with theirs:
            self._control.send(None)
            send_handle(self._control, theirs.fileno(), self._process.pid)
        self._workers += 1
        return _Worker(self, self._workers - 1, ours)

    def end_worker(self, number: int) -> int:
        """Kill a worker, if it has not ended; return its exit status."""
        self._control.send(number)
        status: int = self._control.recv()
        return status

    def close(self) -> None:
        """End the process, but not its workers."""
        self._control.close()
        self._process.kill()
        self._process.wait()


@dataclass(eq=False)
class _Worker:
    server: _ForkServer
    number: int
    connection: Connection

    def stop(self) -> str:
        """Kill the process; return how it ended."""
        self.connection.close()
        try:
            status = self.server.end_worker(self.number)
        except (OSError, EOFError):
            return "was lost"
        if status == -signal.SIGKILL:
            return "was killed by signal 9, probably out of memory: free memory, or use fewer --workers"
        return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


class LocalExecutor(Executor):
    """At most `workers()` processes, kept from run to run; they start in the background when the context is entered."""

    def __init__(self, workers: Callable[[], int], setup: WorkerSetup = DEFAULT_SETUP) -> None:
        super().__init__()
        self._workers = cache(workers)
        self._setup = setup
        self._idle: list[_Worker] = []

    def __enter__(self) -> "LocalExecutor":
        with os_error_as(*REFUSED):
            self._server = _ForkServer(self._setup)
            if self._setup.idle:
                self._idle.append(self._server.start_worker())
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_idle(keep=0)
        self._server.close()

    def _slots(self, at_most: int, need: Need) -> int:  # noqa: ARG002 - there is one machine
        slots = min(self._workers(), at_most)
        self._stop_idle(keep=max(1, slots))  # at least one stays warm for the next run
        return slots

    def _stop_idle(self, keep: int) -> None:
        while len(self._idle) > keep:
            self._idle.pop().stop()

    def _start(self, function: Callable[[Any], object], task: object, need: Need, *, again: bool) -> _Worker:  # noqa: ARG002
        if again and self._idle:
            self._idle.pop().stop()
        worker = self._idle.pop() if self._idle and not again else self._new_worker()
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # `_messages` will notice that the worker is dead
                worker.connection.send((function, task))
        except BaseException:
            worker.stop()
            raise
        return worker

    def _new_worker(self) -> _Worker:
        with os_error_as(*REFUSED):
            try:
                return self._server.start_worker()
            except OSError:  # the fork server was killed
                self._server.close()
                self._server = _ForkServer(self._setup)
                return self._server.start_worker()

    def _messages(self, active: Sequence[_Worker]) -> Iterator[tuple[_Worker, str, Any]]:
        workers = {worker.connection: worker for worker in active}
        for ready in wait(list(workers)):
            worker = workers[ready]  # type: ignore[index]  # wait() returns what it was given
            try:
                kind, value = worker.connection.recv()
            except (EOFError, OSError):
                yield worker, "failed", f"its worker process {worker.stop()}"
                continue
            if kind in ("done", "error"):
                self._idle.append(worker)
            elif kind == "failed":
                worker.stop()
            yield worker, kind, value

    def _stop(self, handle: _Worker) -> None:
        handle.stop()
