"""What a worker does with a task, under any executor, and how it reports progress and log records.

A worker of `executors/local.py` receives `(function, task)` over a pipe and sends `(kind, value)`: what `answer`
returns, `("progress", in all)` and `("log", record)`. It never outlives its coordinator: a thread reads the pipe, and
the end of the pipe ends the process, even while the main thread runs native code.
"""

import logging
import os
import queue
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from pipeline.base import log
from pipeline.base.errors import PipelineError

Post = Callable[[str, object], None]
_post: Post | None = None
_progress = 0  # of the current task


def report_progress(amount: int) -> None:
    """Report to the coordinator that the current task advanced by `amount`; do nothing outside a worker."""
    global _progress
    _progress += amount
    if _post is not None:
        _post("progress", _progress)


def post_with(post: Post) -> None:
    """Make this process a worker that passes its progress and log records to `post(kind, value)`."""
    global _post
    if _post is None:
        logger = logging.getLogger(log.ROOT)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(log.PipeHandler(lambda record: _post("log", record) if _post is not None else None))
    _post = post


def answer(function: Callable[[Any], object], task: object) -> tuple[str, object]:
    """Do a task: `("done", result)`, `("error", PipelineError)`, or `("crash", traceback text)`."""
    global _progress
    _progress = 0
    try:
        return "done", function(task)
    except PipelineError as error:
        return "error", error
    except Exception:
        return "crash", traceback.format_exc()


def main(descriptor: int) -> None:
    """Do tasks from the pipe with this file descriptor until the coordinator closes it."""
    connection = Connection(descriptor)
    sending = threading.Lock()

    def send(kind: str, value: object) -> None:
        with sending:
            connection.send((kind, value))

    post_with(send)
    inbox: queue.SimpleQueue[tuple[Callable[[Any], object], object]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    while True:
        send(*answer(*inbox.get()))


def _receive(connection: Connection, inbox: "queue.SimpleQueue[Any]") -> None:
    while True:
        try:
            inbox.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)  # the coordinator is gone; a half-done task is worth nothing
