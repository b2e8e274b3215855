"""Compare two Parquet files of tokens by their rows, in a worker: each release of Arrow writes other bytes."""

from dataclasses import dataclass

from pipeline.storage import Location, arrow_source, sealed_parquet


@dataclass(frozen=True)
class TablesTask:
    """Two files."""

    found: Location
    expected: Location

    def __str__(self) -> str:
        return f"comparing {self.found}"


def same_rows(task: TablesTask) -> bool:
    """Return whether the first file has the columns and rows of the second one."""
    import pyarrow.parquet as pq

    try:
        return bool(pq.read_table(arrow_source(task.found)).equals(pq.read_table(arrow_source(task.expected))))
    except sealed_parquet.DAMAGE:
        return False
