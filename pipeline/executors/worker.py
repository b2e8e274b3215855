"""A worker process of `executors/local.py`: receives tasks over one pipe, answers over the same.

Messages to the worker: `(function, task)`. Messages from it: `("done", result)`, `("error", PipelineError)`,
`("crash", traceback text)`, `("progress", amount)` and `("log", record)`. A worker lives no longer than its
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

from pipeline import log
from pipeline.errors import PipelineError

_connection: Connection | None = None
_sending = threading.Lock()


def _send(kind: str, value: object) -> None:
    if _connection is not None:
        with _sending:
            _connection.send((kind, value))


def report_progress(amount: int) -> None:
    """Tell the coordinator that a task came `amount` further; does nothing outside a worker."""
    _send("progress", amount)


def main(descriptor: int) -> None:
    """Serve tasks from the pipe with this file descriptor until the coordinator closes it."""
    global _connection
    _connection = Connection(descriptor)
    logger = logging.getLogger(log.ROOT)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(log.PipeHandler(lambda record: _send("log", record)))
    inbox: queue.SimpleQueue[tuple[Callable[[Any], object], object]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(_connection, inbox), daemon=True).start()
    while True:
        function, task = inbox.get()
        try:
            result = function(task)
        except PipelineError as error:
            _send("error", error)
        except Exception:
            _send("crash", traceback.format_exc())
        else:
            _send("done", result)


def _receive(connection: Connection, inbox: "queue.SimpleQueue[Any]") -> None:
    while True:
        try:
            inbox.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)  # the coordinator is gone: what is half done is worth nothing
