"""What a worker does with a task, whatever runs it, and how it is heard of meanwhile.

A worker of `executors/local.py` receives tasks over one pipe and answers over the same. Messages to it: `(function,
task)`. Messages from it: what `answer` gives, `("progress", amount)` and `("log", record)`. It lives no longer than its
coordinator: a thread reads the pipe, and its end ends the process, whatever the main thread is counting.
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


def report_progress(amount: int) -> None:
    """Tell the coordinator that a task came `amount` further; does nothing outside a worker."""
    if _post is not None:
        _post("progress", amount)


def post_with(post: Post) -> None:
    """Let this process be a worker whose progress and log records, as `(kind, value)`, go to `post` from now on."""
    global _post
    if _post is None:
        logger = logging.getLogger(log.ROOT)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(log.PipeHandler(lambda record: _post("log", record) if _post is not None else None))
    _post = post


def answer(function: Callable[[Any], object], task: object) -> tuple[str, object]:
    """Do a task: `("done", result)`, `("error", PipelineError)`, or `("crash", traceback text)`."""
    try:
        return "done", function(task)
    except PipelineError as error:
        return "error", error
    except Exception:
        return "crash", traceback.format_exc()


def main(descriptor: int) -> None:
    """Serve tasks from the pipe with this file descriptor until the coordinator closes it."""
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
            os._exit(0)  # the coordinator is gone: what is half done is worth nothing
