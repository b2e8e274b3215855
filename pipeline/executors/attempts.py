"""How often each task of a run was tried, and when it is enough."""

import logging
from collections.abc import Sequence

from pipeline.base.errors import WorkerError

_log = logging.getLogger(__name__)
MAX_ATTEMPTS = 3


class Attempts:
    """The failed attempts at some tasks."""

    def __init__(self, tasks: Sequence[object]) -> None:
        self._tasks = tasks
        self._failed = [0] * len(tasks)

    def failed(self, index: int, reason: str) -> None:
        """Note that an attempt failed, which is to be made again; raises `WorkerError` where it was the last."""
        self._failed[index] += 1
        if self._failed[index] >= MAX_ATTEMPTS:
            raise WorkerError(
                f"{self._tasks[index]} failed {MAX_ATTEMPTS} times, the last time because {reason}; "
                "what is finished is kept: run the same command again to go on"
            )
        _log.warning("%s failed (%s); trying again in a fresh process", self._tasks[index], reason)

    def has_failed(self, index: int) -> bool:
        """Whether an attempt at a task failed before."""
        return self._failed[index] > 0
