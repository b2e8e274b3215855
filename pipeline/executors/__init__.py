"""Runners of work. A runner knows nothing of what it runs.

The protocol is one method: `run(function, tasks)` calls `function(task)` for every task somewhere else and yields
`(index of the task, result)` in the order in which they end. `function` is a module-level function of an importable
module; tasks and results are plain values or frozen dataclasses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def ignore_progress(_: int) -> None:
    """Hear of progress and do nothing."""


def ignore_notice(_: str) -> None:
    """Hear what a person should know and do nothing."""


@dataclass(frozen=True)
class WorkerSetup:
    """How worker processes start.

    preload: modules that their tasks need, imported once for all of them. absent: optional modules that they are to do
    without. environment: variables for them, where the environment does not have them already.
    """

    preload: Sequence[str] = ()
    absent: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


DEFAULT_SETUP = WorkerSetup()


@dataclass(frozen=True)
class Need:
    """What one task needs of a machine; memory_bytes beside what the process takes by itself."""

    cores: int = 1
    memory_bytes: int = 0

    def __str__(self) -> str:
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{cores} and {self.memory_bytes:,} bytes of memory"

    def times(self, cores: int, memory_bytes: int) -> int:
        """How many such tasks have room at the same time in so much."""
        by_memory = memory_bytes // self.memory_bytes if self.memory_bytes else cores
        return min(cores // self.cores, by_memory)


ONE_CORE = Need()


@dataclass(frozen=True)
class Node:
    """A machine of a cluster, and what of it tasks may take."""

    name: str
    cores: int
    memory_bytes: int

    def __str__(self) -> str:
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{self.name}: {cores}, {self.memory_bytes:,} bytes of memory for tasks"


@dataclass(frozen=True)
class ClusterUse:
    """What was used of a cluster. peak_bytes: of all workers of the fullest node together, at most."""

    nodes: int
    peak_bytes: int


class Shared(Protocol):
    """Bytes that many tasks need, sent to each machine once: a small value, to be a field of those tasks."""

    def get(self) -> bytes:
        """The bytes, in a worker."""
        ...


@dataclass(frozen=True)
class SharedHere:
    """Bytes that go with each task, where that is no way at all."""

    data: bytes = field(repr=False)

    def get(self) -> bytes:
        """See `Shared.get`."""
        return self.data


class Executor(Protocol):
    """Runs tasks on some processes and yields their results as they end.

    on_notice: hears what a person should know while a run waits.
    """

    on_notice: Callable[[str], None]

    @property
    def retries(self) -> int:
        """How many attempts failed so far, in all runs, and were made again."""
        ...

    def nodes(self) -> Sequence[Node]:
        """The machines that tasks run on, at least one of a cluster; none where that is the coordinator's own."""
        ...

    def used(self) -> ClusterUse | None:
        """What was used of a cluster so far; None where the machine is the coordinator's own."""
        ...

    def share(self, data: bytes) -> Shared:
        """Let the tasks of all runs of this executor have these bytes, without each carrying them."""
        ...

    def run(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        on_progress: Callable[[int], None] = ignore_progress,
        *,
        at_once: int | None = None,
        need: Need = ONE_CORE,
    ) -> Iterator[tuple[int, Result]]:
        """Yield `(index, function(tasks[index]))` in order of completion.

        `at_once`: at most so many tasks at the same time, where there are more processes. `need`: of each task, for an
        executor that chooses between machines.
        `on_progress(amount)` hears what tasks report with `report_progress`. A failed attempt's progress is taken
        back (a negative amount), so that the sum is what was really done.

        Raises the `PipelineError` that a task raised (after stopping the others), or `WorkerError` when a task
        failed in several fresh processes for a reason that is not the user's.
        """
        ...
