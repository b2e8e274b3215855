"""Logs of all processes in one file, the run's `log.txt`.

The coordinator's logger writes through `multiprocessing_logging.MultiProcessingHandler`, whose thread keeps slow
disks out of the way of the work. Workers never touch that handler's queue: a worker killed while it held the
queue's lock would block everyone else. Each worker sends its records over its own pipe instead
(`executors/local.py`) and the coordinator hands them to the handler with `relay`. A worker's death can so cost at
most its own last record. (`multiprocessing_logging.install_mp_handler` would insist on the fork start method, which
is unsafe beside Arrow's threads; the handler itself does not need it.)
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = "pipeline"
_FORMAT = "%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s"


@contextlib.contextmanager
def log_to(path: Path, level: int = logging.INFO) -> Iterator[logging.Logger]:
    """Append every record of the package's loggers, of this and all worker processes, to the file at `path`."""
    from multiprocessing_logging import MultiProcessingHandler

    logger = logging.getLogger(ROOT)
    file_handler = logging.FileHandler(path, encoding="utf-8", delay=False)
    file_handler.setFormatter(logging.Formatter(_FORMAT))
    handler = MultiProcessingHandler("run-log", sub_handler=file_handler)
    previous_level, previous_propagate = logger.level, logger.propagate
    logger.setLevel(level)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        logger.removeHandler(handler)
        handler.close()
        logger.setLevel(previous_level)
        logger.propagate = previous_propagate


class PipeHandler(logging.Handler):
    """A worker's handler: sends each record, its message already formatted, through `send`."""

    def __init__(self, send: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Format the message here, so that nothing unusual has to cross to the coordinator."""
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        try:
            self._send(record)
        except OSError:
            self.handleError(record)


def relay(record: logging.LogRecord) -> None:
    """Hand a worker's record to the coordinator's handlers."""
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
