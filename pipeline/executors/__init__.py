"""Runners of work. A runner knows nothing of what it runs.

The protocol is one method: `run(function, tasks)` calls `function(task)` for every task somewhere else and yields
`(index of the task, result)` in the order in which they end. `function` is a module-level function of an importable
module; tasks and results are plain values or frozen dataclasses.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def ignore_progress(_: int) -> None:
    """Hear of progress and do nothing."""


class Executor(Protocol):
    """Runs tasks on some processes and yields their results as they end."""

    @property
    def retries(self) -> int:
        """How many attempts failed so far, in all runs, and were made again."""
        ...

    def run(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        on_progress: Callable[[int], None] = ignore_progress,
        *,
        at_once: int | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield `(index, function(tasks[index]))` in order of completion.

        `at_once`: at most so many tasks at the same time, where there are more processes.
        `on_progress(amount)` hears what tasks report with `report_progress`. A failed attempt's progress is taken
        back (a negative amount), so that the sum is what was really done.

        Raises the `PipelineError` that a task raised (after stopping the others), or `WorkerError` when a task
        failed in several fresh processes for a reason that is not the user's.
        """
        ...
