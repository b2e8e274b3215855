"""Where a run's work is done: the executor that its options ask for, and what its workers run.

Apart from `training`, so that worker processes can start while the coordinator still imports the rest.
"""

from pipeline.config import Options
from pipeline.executors.local import LocalExecutor

MODULES = ("pipeline.count_chunk", "pipeline.combine", "pipeline.merge")
# Arrow imports numpy where it is installed, at the price of its start; no task needs it.
ABSENT_MODULES = ("numpy",)


def executor_for(options: Options) -> LocalExecutor:
    """The executor for a run, a context manager."""
    return LocalExecutor(lambda: worker_count(options), preload=MODULES, absent=ABSENT_MODULES)


def worker_count(options: Options) -> int:
    """Processes that count at the same time."""
    from pipeline.environment import default_workers

    return options.workers or default_workers()
