"""Read a whole counter in a worker: its checksums are checked, and the bytes of its text are added up."""

from dataclasses import dataclass

from bpe_pipeline.base.errors import TrainingError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.counts.counter_file import as_batch, open_counter
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.storage import Location

_COPIES_READ = 3  # of a partition: as read, decoded, and checked


@dataclass(frozen=True)
class SumTask:
    """A counter and its fingerprint: a task for a worker. budget_bytes: what reading it may take."""

    path: Location
    fingerprint: str
    budget_bytes: int

    def __str__(self) -> str:
        return f"reading {self.path}"


def text_bytes(task: SumTask) -> int:
    """Return the bytes of all pre-tokens of a counter, each as often as it occurs.

    Raises `RunDirectoryError` if the counter is damaged, `TrainingError` if a partition exceeds the budget.
    """
    import pyarrow.compute as pc

    total = 0
    with open_counter(task.path, fingerprint=task.fingerprint) as counter:
        needed = _COPIES_READ * counter.partition_bytes()
        if needed > task.budget_bytes:
            raise TrainingError(
                f"{task} would take {format_bytes(needed)} and a worker has {format_bytes(max(task.budget_bytes, 0))}: "
                "a pre-token in it is very long; give a larger --memory-limit, or fewer --workers"
            )
        for pre_tokens, counts in map(as_batch, counter.read_all()):
            sizes = pc.binary_length(pre_tokens).cast("uint64")
            total += pc.sum(pc.multiply(sizes, counts)).as_py() or 0
    report_progress(1)
    return total
