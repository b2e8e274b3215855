"""What a worker does with a task, under any executor, and the process that forks the workers of one machine.

A worker of `executors/local.py` receives `(function, task)` over a pipe and sends `(kind, value)`: what `answer`
returns, `("progress", in all)` and `("log", record)`. It never outlives its coordinator: a thread reads the pipe, and
the end of the pipe ends the process, even while the main thread runs native code.

The process that forks has imported the workers' modules. It has one thread and imports nothing that starts another, so
its forks are complete; a fork of the coordinator would copy locks that its threads, and Arrow's, hold. A worker is
ready within milliseconds and shares the imported modules' memory with the others.
"""

import contextlib
import gc
import logging
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import TYPE_CHECKING, Any

from bpe_pipeline.base import log
from bpe_pipeline.base.errors import PipelineError, WorkerError, os_error_as

if TYPE_CHECKING:
    from bpe_pipeline.executors import Importing, WorkerSetup

REFUSED = WorkerError, "no worker process can be started", "use fewer --workers"
Post = Callable[[str, object], None]
_post: Post | None = None
_progress = 0  # of the current task
_of_thread = threading.local()


def report_progress(amount: int) -> None:
    """Report to the coordinator that the current task advanced by `amount`; do nothing outside a worker."""
    global _progress
    if report := getattr(_of_thread, "report", None):
        report(amount)
        return
    _progress += amount
    if _post is not None:
        _post("progress", _progress)


@contextlib.contextmanager
def reporting_to(report: Callable[[int], None]) -> Iterator[None]:
    """Pass what this thread reports to a function during the block: the thread is a worker of its own process."""
    _of_thread.report = report
    try:
        yield
    finally:
        del _of_thread.report


def report_totals(done: int = 0) -> Callable[..., None]:
    """Return what reports progress in totals: called with how much is done; `done` was before. Less is ignored."""

    def report(now: int, *_: object) -> None:
        nonlocal done
        if now > done:
            report_progress(now - done)
            done = now

    return report


class _RecordHandler(QueueHandler):
    """Passes log records, their messages already formatted, to a `Post` in place of a queue."""

    def enqueue(self, record: logging.LogRecord) -> None:
        """Post a record."""
        with contextlib.suppress(OSError):  # the coordinator is gone; this process ends soon
            self.queue("log", record)  # type: ignore[operator]


def post_with(post: Post) -> None:
    """Make this process a worker that passes its progress and log records to `post(kind, value)`."""
    global _post
    _post = post
    logger = logging.getLogger(log.ROOT)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [_RecordHandler(post)]  # type: ignore[arg-type]


def answer(function: Callable[[Any], object], task: object) -> tuple[str, object]:
    """Do a task: `("done", result)`, `("error", PipelineError)`, or `("failed", text)`, whose last line is why."""
    global _progress
    _progress = 0
    try:
        return "done", function(task)
    except Exception as error:
        if is_final(error):
            return "error", error
        return "failed", traceback.format_exc().strip()


def is_final(error: Exception) -> bool:
    """Return whether another attempt at a task would fail as this one did: a store may answer the next time."""
    return isinstance(error, PipelineError) and not isinstance(error, OSError)


def serve(connection: Connection, waiting: Iterator["Importing"]) -> None:
    """Do tasks from a pipe until the coordinator closes it; import what is waiting while there is none."""
    sending = threading.Lock()
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def send(kind: str, value: object) -> None:
        with sending:
            connection.send((kind, value))

    def receive() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                inbox.put(connection.recv())
        os._exit(0)  # the coordinator is gone; a half-done task is worth nothing

    post_with(send)
    threading.Thread(target=receive, daemon=True).start()
    while True:
        while inbox.empty() and (importing := next(waiting, None)):
            preload([importing])
        send(*answer(*inbox.get()))


def preload(needed: Sequence["Importing"]) -> None:
    """Import what tasks need; the task that needs it will report what cannot be imported."""
    for importing in needed:
        with contextlib.suppress(Exception):
            importing()


def fork_workers(descriptor: int) -> None:
    """Fork workers, one at a time, until the coordinator closes the pipe with this descriptor; they end with theirs.

    It sends a `WorkerSetup`, then None and a descriptor of its pipe for each worker, or the number of a worker that is
    to end: the answer is its exit status (negative: the signal).
    """
    control = Connection(descriptor)
    # The coordinator has ended, perhaps amid a message, or no worker can start.
    with contextlib.suppress(EOFError, OSError, RuntimeError, WorkerError):
        setup: WorkerSetup = control.recv()
        gc.disable()  # what is imported stays
        sys.modules.update(dict.fromkeys(setup.absent))  # type: ignore[arg-type]  # importing one fails at once
        preload(setup.preload)
        gc.enable()
        gc.freeze()  # a worker's garbage collector would write to pages that all workers share
        processes = list[int]()
        while True:
            if (number := control.recv()) is None:
                processes.append(_fork(control, setup))
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(processes[number], signal.SIGKILL)
            control.send(os.waitstatus_to_exitcode(os.waitpid(processes[number], 0)[1]))
    os._exit(0)


def _fork(control: Connection, setup: "WorkerSetup") -> int:
    """Fork a worker for the pipe that follows; return its process id. Raises `WorkerError`, also over the pipe."""
    with Connection(recv_handle(control)) as pipe:
        try:
            with os_error_as(*REFUSED):
                process = os.fork()
        except WorkerError as error:
            pipe.send(("error", error))
            raise
        if process == 0:
            control.close()
            serve(pipe, iter(setup.idle))
        return process
