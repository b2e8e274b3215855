"""What `verify` and `report` of a changed tokenizer ask a worker: whether tables are the same, how many tokens."""

from dataclasses import dataclass

from pipeline.counts.counter_file import open_counter
from pipeline.storage import Location, arrow_source, sealed_parquet
from pipeline.tokenizer.model import Model


@dataclass(frozen=True)
class TablesTask:
    """Two Parquet files."""

    found: Location
    expected: Location

    def __str__(self) -> str:
        return f"comparing {self.found}"


def same_rows(task: TablesTask) -> bool:
    """Return whether the first file has the columns and rows of the second one.

    Each release of Arrow writes other bytes.
    """
    import pyarrow.parquet as pq

    try:
        return bool(pq.read_table(arrow_source(task.found)).equals(pq.read_table(arrow_source(task.expected))))
    except sealed_parquet.DAMAGE:
        return False


@dataclass(frozen=True)
class TotalTask:
    """A counter, and tokenizers that encode it."""

    counter: Location
    counter_fingerprint: str
    models: tuple[Model, ...]

    def __str__(self) -> str:
        return f"encoding {self.counter}"


def total(task: TotalTask) -> tuple[int, ...]:
    """Return how many tokens each of the tokenizers makes of all pieces."""
    with open_counter(task.counter, fingerprint=task.counter_fingerprint) as counter:
        return tuple(sum(model.uses(counter.read_all())) for model in task.models)
