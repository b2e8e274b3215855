"""Worker processes on this machine.

Each worker is a fresh interpreter (never a fork: Arrow's and our own threads would be copied half-alive) with a
pipe of its own, so that a worker that dies, at whatever moment, can neither block nor confuse another. A task whose
worker died, or raised something that is not a `PipelineError`, is tried again in a fresh process, three times in all.
"""

import json
import logging
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait

from pipeline import log
from pipeline.errors import PipelineError, WorkerError
from pipeline.executors import Result, Task

_log = logging.getLogger(__name__)
MAX_ATTEMPTS = 3
_START = (
    "import sys, json; descriptor, sys.path[:] = int(sys.argv[1]), json.loads(sys.argv[2]); "
    "from pipeline.executors.worker import main; main(descriptor)"
)


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    task: int = -1  # index of the task in hand
    progress: int = field(default=0)  # how much of it was reported

    @classmethod
    def start(cls) -> "_Worker":
        ours, theirs = Pipe()
        with theirs:
            descriptor = theirs.fileno()
            # The worker inherits the blocked signal: Ctrl-C is the coordinator's, from the first instruction on.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _START, str(descriptor), json.dumps(sys.path)],
                    pass_fds=[descriptor],
                    stdin=subprocess.DEVNULL,
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return cls(process, ours)

    def stop(self) -> int:
        """End the process, however busy, and return its exit status (negative: the signal)."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(0.5)
        self.process.kill()
        return self.process.wait()


class LocalExecutor:
    """At most `workers` processes; `on_progress(amount)` hears what tasks report with `report_progress`.

    A failed attempt's progress is taken back (a negative amount), so that the sum is what was really done.
    """

    def __init__(self, workers: int, on_progress: Callable[[int], None] = lambda _: None) -> None:
        self._workers = workers
        self._on_progress = on_progress

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """See `Executor.run`. Leaving the iteration early stops all workers."""
        waiting = deque(range(len(tasks)))
        attempts = [0] * len(tasks)
        busy: dict[Connection, _Worker] = {}
        idle: list[_Worker] = []

        def hand_out() -> None:
            while waiting and len(busy) < self._workers:
                worker = idle.pop() if idle else _Worker.start()
                worker.task, worker.progress = waiting.popleft(), 0
                attempts[worker.task] += 1
                busy[worker.connection] = worker
                with suppress(BrokenPipeError, ConnectionResetError):  # a dead worker is found by its silence
                    worker.connection.send((function, tasks[worker.task]))

        def failed(worker: _Worker, reason: str) -> None:
            del busy[worker.connection]
            worker.stop()
            self._on_progress(-worker.progress)
            if attempts[worker.task] >= MAX_ATTEMPTS:
                raise WorkerError(
                    f"{tasks[worker.task]} failed {MAX_ATTEMPTS} times, the last time because {reason}; "
                    "what is finished is kept: run the same command again to go on"
                )
            _log.warning("%s failed (%s); trying again in a fresh process", tasks[worker.task], reason)
            waiting.append(worker.task)

        try:
            hand_out()
            while busy:
                for ready in wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]  # wait() gives back what it was given
                    try:
                        kind, value = worker.connection.recv()
                    except (EOFError, OSError):
                        status = worker.stop()
                        died = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
                        failed(worker, f"its worker process {died}")
                        continue
                    if kind == "log":
                        log.relay(value)
                    elif kind == "progress":
                        worker.progress += value
                        self._on_progress(value)
                    elif kind == "done":
                        index = worker.task
                        idle.append(busy.pop(worker.connection))
                        hand_out()  # before the result is looked at: no worker waits for the coordinator
                        yield index, value
                    elif kind == "error":
                        error: PipelineError = value
                        raise error
                    else:
                        _log.error("%s raised:\n%s", tasks[worker.task], value)
                        failed(worker, value.strip().splitlines()[-1])
                hand_out()
        finally:
            for worker in (*busy.values(), *idle):
                worker.process.terminate()
            for worker in (*busy.values(), *idle):
                worker.stop()
