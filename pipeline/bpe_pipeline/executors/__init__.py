"""Run tasks in worker processes. An executor knows nothing of what the tasks do.

A task's function is a module-level function of an importable module; tasks and results are plain values or frozen
dataclasses.
"""

import logging
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from bpe_pipeline.base import log, system
from bpe_pipeline.base.errors import WorkerError
from bpe_pipeline.base.units import format_count

Task = TypeVar("Task")
Result = TypeVar("Result")
Importing = Callable[[], object]  # imports something; a function of a module that imports little itself
MAX_ATTEMPTS = 3
_log = logging.getLogger(__name__)


def ignore(_: object) -> None:
    """Do nothing: the default listener for progress and notices."""


@dataclass(frozen=True)
class WorkerSetup:
    """How worker processes start."""

    preload: Sequence[Importing] = ()  # what tasks need, imported once for all workers
    idle: Sequence[Importing] = ()  # what a worker imports while it waits for a task, also before the first one
    absent: Sequence[str] = ()  # optional modules that workers must not import
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that the environment may have already


DEFAULT_SETUP = WorkerSetup()


@dataclass(frozen=True)
class Need:
    """What one task needs of a machine; memory_bytes: in addition to the process itself."""

    cores: int = 1
    memory_bytes: int = 0

    def __str__(self) -> str:
        return f"{format_count(self.cores, 'cores')} and {self.memory_bytes:,} bytes of memory"


ONE_CORE = Need()


@dataclass(frozen=True)
class Node:
    """A machine of a cluster, with the cores and memory that tasks may use."""

    name: str
    cores: int
    memory_bytes: int

    def __str__(self) -> str:
        return f"{self.name}: {format_count(self.cores, 'cores')}, {self.memory_bytes:,} bytes of memory for tasks"

    def slots(self, need: Need) -> int:
        """Return how many tasks with this need fit on the machine at the same time."""
        by_memory = self.memory_bytes // need.memory_bytes if need.memory_bytes else self.cores
        return min(self.cores // need.cores, by_memory)


@dataclass(frozen=True)
class ClusterUse:
    """What was used of a cluster. peak_bytes: upper bound for all workers of the fullest node together."""

    nodes: int
    peak_bytes: int


@dataclass(frozen=True)
class Broadcast:
    """Bytes that many tasks need and that each machine of a cluster receives once; a small field of those tasks."""

    data: bytes = field(default=b"", repr=False)  # on one machine
    reference: Any = None  # on a cluster: into Ray's object store

    def get(self) -> bytes:
        """Return the bytes; called in a worker."""
        return self.data if self.reference is None else bytes(import_module("ray").get(self.reference))


def failed_too_often(task: object, reason: str) -> WorkerError:
    """Return the error for a task whose last attempt failed for this reason."""
    certain = reason.startswith("MemoryError")
    remedy = f"; {'' if certain else 'perhaps '}{system.memory_is_short()}" if certain or system.maps_limited() else ""
    return WorkerError(
        f"{task} failed {MAX_ATTEMPTS} times, the last time because {reason}{remedy}; what is finished is kept: run "
        "the same command again to resume"
    )


class _Attempts:
    """The tasks of one run by their indices: those that wait for an attempt, and how far and how often each came."""

    def __init__(self, tasks: Sequence[object], on_progress: Callable[[int], None]) -> None:
        self.waiting = deque(range(len(tasks)))
        self.failures: Counter[int] = Counter()
        self._tasks, self._on_progress = tasks, on_progress
        self._reported: Counter[int] = Counter()  # progress of the last attempt

    def advance(self, index: int, progress: int) -> None:
        """Report what a task has done since it last said so."""
        if progress != self._reported[index]:
            self._on_progress(progress - self._reported[index])
            self._reported[index] = progress

    def fail(self, index: int, reason: str) -> None:
        """Take back the progress of a failed attempt; the task waits for the next. `WorkerError` after the last."""
        _log.error("%s failed: %s", self._tasks[index], reason)
        self.advance(index, 0)
        self.failures[index] += 1
        if self.failures[index] == MAX_ATTEMPTS:
            raise failed_too_often(self._tasks[index], reason.splitlines()[-1])
        _log.warning("trying again in a fresh process")
        self.waiting.append(index)


class Executor(ABC):
    """Runs tasks; a context manager, on whose end its processes end. Subclasses start tasks and receive messages."""

    def __init__(self) -> None:
        self.retries = 0  # failed attempts that were repeated, in all runs
        self._meanwhile: Callable[[], object] | None = None
        self.on_notice: Callable[[str], None] = ignore  # called with a message for the user while a run waits

    def nodes(self) -> Sequence[Node]:
        """Return the machines that tasks run on, at least one of a cluster; none if it is the coordinator's own."""
        return ()

    def used(self) -> ClusterUse | None:
        """Return what was used of a cluster so far; None if the machine is the coordinator's own."""
        return None

    def meanwhile(self, function: Callable[[], object]) -> None:
        """Call a function once, when the next run has handed out its first tasks."""
        self._meanwhile = function

    def broadcast(self, data: bytes) -> Broadcast:
        """Make these bytes available to the tasks of all runs of this executor."""
        return Broadcast(data)

    def run(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        on_progress: Callable[[int], None] = ignore,
        *,
        at_once: int | None = None,
        need: Need = ONE_CORE,
    ) -> Iterator[tuple[int, Result]]:
        """Yield `(index, function(tasks[index]))` in order of completion; closing the iterator stops active tasks.

        at_once: limit of active tasks. on_progress(amount) receives what tasks report with `report_progress`, and minus
        the progress of a failed attempt. A task whose worker died, or that raised an error that is not a
        `PipelineError`, is tried again in a fresh process, three times in all.
        Raises the `PipelineError` of a task, or `WorkerError` after the last attempt.
        """
        attempts = _Attempts(tasks, on_progress)
        active: dict[Any, int] = {}  # handle -> index of task

        def hand_out() -> None:
            slots = self._slots(min(at_once or len(tasks), len(tasks)), need)
            while attempts.waiting and len(active) < slots:
                index = attempts.waiting.popleft()
                _log.debug("%s starts", tasks[index])
                active[self._start(function, tasks[index], need, again=attempts.failures[index] > 0)] = index

        try:
            hand_out()
            if active and self._meanwhile is not None:
                now, self._meanwhile = self._meanwhile, None
                now()
            while attempts.waiting or active:
                for handle, kind, value in self._messages(list(active)):
                    if kind == "log":
                        log.relay(value)
                    if kind == "log" or handle not in active:
                        continue  # a late message of an attempt that has ended
                    if kind == "progress":
                        attempts.advance(active[handle], value)
                        continue
                    index = active.pop(handle)
                    if kind == "error":
                        raise value
                    if kind == "done":
                        hand_out()  # before the caller handles the result: no worker waits for the coordinator
                        yield index, value
                        continue
                    attempts.fail(index, value)
                    self.retries += 1
                hand_out()
        finally:
            for handle in active:
                self._stop(handle)

    def one(
        self,
        function: Callable[[Task], Result],
        task: Task,
        on_progress: Callable[[int], None] = ignore,
        *,
        need: Need = ONE_CORE,
    ) -> Result:
        """Return `function(task)`, run as `run` does it."""
        [(_, result)] = self.run(function, [task], on_progress, need=need)
        return result

    @abstractmethod
    def _slots(self, at_most: int, need: Need) -> int:
        """Return how many tasks may be active now, and end idle workers beyond that."""

    @abstractmethod
    def _start(self, function: Callable[[Any], object], task: object, need: Need, *, again: bool) -> Any:
        """Start a task, in a fresh process if `again`; return a handle for it."""

    @abstractmethod
    def _messages(self, active: Sequence[Any]) -> Iterator[tuple[Any, str, Any]]:
        """Wait a moment for messages of these handles; yield (handle, kind, value). `failed`: also of a dead worker."""

    @abstractmethod
    def _stop(self, handle: Any) -> None:
        """Stop a task."""
