"""Worker processes on this machine.

Workers are forked by a process that does nothing else (`worker.fork_workers`), never by the coordinator. That process
is a fork of the command, which has already imported half of what workers need, as long as the command has one thread;
otherwise, and in a program that calls this package, it is a new Python. Each worker has a pipe of its own, so that a
worker that dies at any moment neither blocks nor confuses another.
"""

import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import WorkerError, os_error_as
from bpe_pipeline.executors import DEFAULT_SETUP, Executor, Need, WorkerSetup
from bpe_pipeline.executors.worker import FORK, FORK_FIRST, IMPORT_LATER, NUMBER_BYTES, fork_workers

_PROGRAM = (
    "import sys, pickle; sys.path[:] = sys.argv[3:]; import bpe_pipeline; del sys.path[0]; "
    "from bpe_pipeline.executors import worker; setup = pickle.loads(bytes.fromhex(sys.argv[2])); "
    "worker.fork_workers(int(sys.argv[1]), *setup)"
)
_THREADS = Path("/proc/self/task")
_REFUSED = WorkerError, "no worker process can be started", "use fewer --workers"


@contextmanager
def _blocked(*signals: signal.Signals) -> Iterator[None]:
    """Let a process inherit blocked signals, from its first instruction on: Ctrl-C is for the coordinator."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _interpreter(descriptor: int, setup: WorkerSetup) -> "subprocess.Popen[bytes]":
    """Start a new Python that inherits one descriptor and forks workers, of this package and no other."""
    needed = pickle.dumps((setup.preload, setup.absent, setup.first, setup.later)).hex()
    arguments = [descriptor, needed, Path(__file__).parents[2], *sys.path]
    with _blocked(signal.SIGINT):
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            env={**setup.environment, **os.environ},
            pass_fds=[descriptor],
        )


class _ForkServer:
    """The coordinator's side of `worker.fork_workers`. Methods raise OSError if the process is gone."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._control, theirs = socket.socketpair()
        try:
            with theirs:
                if system.is_command and _THREADS.is_dir() and len(list(_THREADS.iterdir())) == 1:
                    self._kill, self._wait = self._fork_this_process(theirs.fileno(), setup)
                else:
                    process = _interpreter(theirs.fileno(), setup)
                    self._kill, self._wait = process.kill, process.wait
        except OSError:
            self._control.close()
            raise

    def _fork_this_process(self, descriptor: int, setup: WorkerSetup) -> tuple[Callable[[], object], ...]:
        """Fork the process; return what kills it and what waits for its end."""
        with _blocked(signal.SIGINT, signal.SIGTERM):
            process = os.fork()
            if process == 0:
                try:
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the command's own handler is the coordinator's
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
                    self._control.close()
                    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
                    gc.set_threshold(*system.GARBAGE_THRESHOLDS)
                    for name, value in setup.environment.items():
                        os.environ.setdefault(name, value)
                    fork_workers(descriptor, setup.preload, setup.absent, setup.first, setup.later)
                except BaseException:
                    traceback.print_exc()  # nothing above may catch it: this is another process
                finally:
                    os._exit(1)
        return partial(os.kill, process, signal.SIGKILL), partial(os.waitpid, process, 0)

    def fork(self, pipe: Connection) -> int:
        """Start a worker that serves this pipe; return its process id, or a negative error number."""
        self._ask(FORK, pipe)
        return self._answer()

    def fork_first(self) -> Connection:
        """Ask for the first worker, before there is work for it; return its pipe. `first_process` waits for it."""
        ours, theirs = Pipe()
        with theirs:
            self._ask(FORK_FIRST, theirs)
        return ours

    def first_process(self) -> int:
        """Return the process id of the first worker, or a negative error number."""
        return self._answer()

    def _ask(self, request: bytes, pipe: Connection) -> None:
        socket.send_fds(self._control, [request], [pipe.fileno()])

    def wait(self, process: int) -> int:
        """Return the exit status of a worker that has ended or is about to."""
        self._control.sendall(process.to_bytes(NUMBER_BYTES))
        return self._answer()

    def import_later(self) -> None:
        """Import what only fresh workers need, while nothing else is asked for."""
        self.wait(IMPORT_LATER)

    def _answer(self) -> int:
        answer = self._control.recv(NUMBER_BYTES, socket.MSG_WAITALL)
        if len(answer) < NUMBER_BYTES:
            raise ConnectionError("the process that forks workers is gone")
        return int.from_bytes(answer, signed=True)

    def close(self) -> None:
        """End the process, but not its workers; again does nothing."""
        if self._control.fileno() >= 0:
            self._control.close()
            with suppress(ProcessLookupError, ChildProcessError):
                self._kill()
                self._wait()


@dataclass(eq=False)
class _Worker:
    process: int
    server: _ForkServer
    connection: Connection

    def stop(self) -> str:
        """Kill the process; return how it ended."""
        self.connection.close()
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        try:
            status = self.server.wait(self.process)
        except OSError:
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
        self._first: Connection | None = None
        self._fresh_expected = False

    def __enter__(self) -> "LocalExecutor":
        with os_error_as(*_REFUSED):
            self._server = _ForkServer(self._setup)
            if self._setup.first:
                self._first = self._server.fork_first()
        return self

    def __exit__(self, *_: object) -> None:
        if self._first is not None:
            self._first.close()  # the worker ends with it
        self._stop_idle(keep=0)
        self._server.close()

    def meanwhile(self, function: Callable[[], object]) -> None:
        """As the base says; what fresh workers need is imported when the next one has been forked."""
        super().meanwhile(function)
        self._fresh_expected = True

    def _slots(self, at_most: int, need: Need) -> int:  # noqa: ARG002 - there is one machine
        slots = min(self._workers(), at_most)
        self._stop_idle(keep=max(1, slots))  # at least one stays warm for the next run
        return slots

    def _stop_idle(self, keep: int) -> None:
        while len(self._idle) > keep:
            self._idle.pop().stop()

    def _start(self, function: Callable[[Any], object], task: object, need: Need, *, again: bool) -> _Worker:  # noqa: ARG002
        others = [self._idle.pop()] if again and self._idle else []
        worker = self._idle.pop() if self._idle and not again else self._new_worker()
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # `_messages` will notice that the worker is dead
                worker.connection.send((function, task))
        except BaseException:
            worker.stop()
            raise
        finally:
            for other in others:
                other.stop()
        return worker

    def _new_worker(self) -> _Worker:
        with os_error_as(*_REFUSED):
            try:
                process, ours = self._forked()
            except OSError:  # the fork server was killed
                self._server.close()
                self._server = _ForkServer(self._setup)
                process, ours = self._forked()
            if process < 0:
                raise OSError(-process, os.strerror(-process))
        if self._fresh_expected:
            self._fresh_expected = False
            with suppress(OSError):  # the next request will notice that the process is gone
                self._server.import_later()
        return _Worker(process, self._server, ours)

    def _forked(self) -> tuple[int, Connection]:
        """Return the process and the pipe of a new worker, perhaps of the first one, which was asked for before."""
        if (first := self._first) is not None:
            self._first = None
            return self._server.first_process(), first
        ours, theirs = Pipe()
        with theirs:
            return self._server.fork(theirs), ours

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
