"""The log of a run: records of all processes in one local file.

The coordinator's logger writes through `multiprocessing_logging.MultiProcessingHandler`, whose thread keeps slow disks
from delaying the work. Workers never touch that handler's queue: a worker killed while it holds the queue's lock would
block every other process. Each worker sends its records over its own pipe instead and the coordinator passes them to
the handler with `relay`, so a killed worker loses at most its own last record.
(`multiprocessing_logging.install_mp_handler` requires the fork start method, which is unsafe next to Arrow's threads.)
"""

import contextlib
import logging
import queue
import sys
from collections.abc import Iterator
from pathlib import Path

from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.base.printable import printable, printable_lines
from bpe_pipeline.base.system import process_lock

ROOT = "bpe_pipeline"
_FORMAT = "%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s"
logging.getLogger(ROOT).addHandler(logging.NullHandler())  # without a log, warnings are not printed to standard error
_LAST = logging.makeLogRecord({})
_lock = process_lock()
_users: list[logging.Handler] = []
_before: list[tuple[int, bool]] = []  # level and propagate as they were before the first user


@contextlib.contextmanager
def log_to(path: Path) -> Iterator[logging.Logger]:
    """Append every record of the package's loggers, of this process and all workers, to a local file.

    Several runs may log at the same time from threads of one process: each file then holds the records of all of them.
    When the last one ends, the logger has its previous settings again. Raises `RunDirectoryError`.
    """
    from multiprocessing_logging import MultiProcessingHandler

    logger = logging.getLogger(ROOT)
    with os_error_as(
        RunDirectoryError, f"the log {path} cannot be written", "make it writable, or choose another --output"
    ):
        file_handler = _LogFile(path, encoding="utf-8", errors="backslashreplace", delay=False)
    file_handler.setFormatter(_Lines(_FORMAT))
    records = _RecordQueue()
    # A property, so that the queue is in place before the handler's thread starts, which waits for a record.
    queue_of_handler = {"queue": property(lambda _: records, lambda *_: None)}
    run_log: type[logging.Handler] = type("RunLog", (MultiProcessingHandler,), queue_of_handler)
    handler: logging.Handler = file_handler
    if _makes_semaphores():
        handler = run_log("run-log", sub_handler=file_handler)  # type: ignore[call-arg]
    with _lock:
        if not _users:
            _before.append((logger.level, logger.propagate))
        _users.append(handler)
        # A lower level was requested, or is another run's.
        logger.setLevel(min(logging.INFO, logger.level or logging.INFO))
        logger.propagate = False
        logger.addHandler(handler)
    try:
        yield logger
    finally:
        with _lock:
            logger.removeHandler(handler)
            _users.remove(handler)
            if not _users:
                previous_level, logger.propagate = _before.pop()
                logger.setLevel(previous_level)
        records.put(_LAST)
        handler.close()


def _makes_semaphores() -> bool:
    """Return whether the system makes semaphores between processes, as the handler does, but needs none here.

    Where it has no shared memory to write to (/dev/shm is missing, full or read-only), records are written at once.
    """
    import multiprocessing

    try:
        multiprocessing.BoundedSemaphore()
    except (OSError, ImportError):
        return False
    return True


class _Lines(logging.Formatter):
    """Write a record as one line, and its traceback indented, so that no text looks like another record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without controls."""
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line and the traceback."""
        first, *traceback = super().format(record).split("\n")
        return printable_lines([first, *(f"    {line}" for line in traceback)])


class _LogFile(logging.FileHandler):
    """A log file that ignores write errors: if the disk is full, the run itself fails and reports it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Drop the record."""

    def close(self) -> None:
        """Close the file and drop what cannot be written."""
        with contextlib.suppress(OSError):
            super().close()


class _RecordQueue(queue.Queue[logging.LogRecord]):
    """Replaces the handler's queue between processes, since all records reach the handler in the coordinator.

    That queue needs a pipe, locks and a thread; on macOS it has no `qsize`, which stops the handler. And the handler
    would notice 0.2 s late that it was closed.
    """

    _ended = False

    def get(self, block: bool = True, timeout: float | None = None) -> logging.LogRecord:
        """Return the next record; after the last one there is none to wait for."""
        record = super().get(block and not self._ended, timeout)
        self._ended = record is _LAST
        if self._ended:
            raise queue.Empty
        return record

    def close(self) -> None:
        """Do nothing: there is no pipe to close, and no thread to join."""

    join_thread = close


def show_all() -> None:
    """Print every record on standard error too, debug messages included."""
    handler = _StandardError()
    handler.setFormatter(_Lines(_FORMAT))
    logging.getLogger(ROOT).addHandler(handler)
    logging.getLogger(ROOT).setLevel(logging.DEBUG)


class _StandardError(logging.Handler):
    """Prints on what standard error is now: progress bars put themselves in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"{self.format(record)}\n")


def relay(record: logging.LogRecord) -> None:
    """Pass a worker's record to the coordinator's handlers."""
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
