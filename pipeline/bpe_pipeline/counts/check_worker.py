"""Read a whole counter in a worker, so that its checksums are checked."""

from dataclasses import dataclass

from bpe_pipeline.base.errors import TrainingError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.storage import Location

_COPIES_READ = 3  # of a partition: as read, decoded, and checked


@dataclass(frozen=True)
class CheckTask:
    """A counter and its fingerprint: a task for a worker. budget_bytes: what reading it may take."""

    path: Location
    fingerprint: str
    budget_bytes: int

    def __str__(self) -> str:
        return f"reading {self.path}"


def check(task: CheckTask) -> None:
    """Read all partitions.

    Raises `RunDirectoryError` if the counter is damaged, `TrainingError` if a partition exceeds the budget.
    """
    with open_counter(task.path, fingerprint=task.fingerprint) as counter:
        needed = _COPIES_READ * counter.partition_bytes()
        if needed > task.budget_bytes:
            raise TrainingError(
                f"{task} would take {format_bytes(needed)} and a worker has {format_bytes(max(task.budget_bytes, 0))}: "
                "a pre-token in it is very long; give a larger --memory-limit, or fewer --workers"
            )
        for _ in counter.read_all():
            pass
    report_progress(1)
