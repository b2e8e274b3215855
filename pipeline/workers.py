"""Where a run's work is done: the executor that its options ask for, and what its workers run.

Apart from `training`, so that worker processes can start while the coordinator still imports the rest.
"""

from pipeline.config import Options
from pipeline.executors.local import LocalExecutor, WorkerSetup

SETUP = WorkerSetup(
    preload=("pipeline.count_chunk", "pipeline.combine", "pipeline.merge"),
    # Arrow imports numpy where it is installed, at the price of its start; no task needs it.
    absent=("numpy",),
    # Arrow's own pools keep more of what was freed.
    environment={"ARROW_DEFAULT_MEMORY_POOL": "system"},
)


ENCODING = WorkerSetup(
    preload=("pipeline.encode_chunk", "pipeline.write_shard"), absent=SETUP.absent, environment=SETUP.environment
)


def executor_for(options: Options, setup: WorkerSetup = SETUP) -> LocalExecutor:
    """The executor for a run, a context manager."""
    return LocalExecutor(lambda: worker_count(options), setup)


def worker_count(options: Options) -> int:
    """Processes that count at the same time."""
    from pipeline.environment import default_workers

    return options.workers or default_workers()
