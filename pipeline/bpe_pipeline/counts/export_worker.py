"""Write a counter as TSV for other tools, in a worker process and in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.counts.counter_file import as_batch, open_counter
from bpe_pipeline.counts.counts_file import BATCH_ROWS, escaped
from bpe_pipeline.storage import Location
from bpe_pipeline.storage.atomic import whole_file

EXPORT_REMEDY = "free disk space, make its directory, or name another file for the counts"


@dataclass(frozen=True)
class WriteTask:
    """A counter to write as TSV: a task for a worker. About `band_bytes` of it at most are in memory at once."""

    counter: Location
    fingerprint: str
    output: Location
    band_bytes: int

    def __str__(self) -> str:
        return f"writing {self.output}"


def read_whole(task: WriteTask) -> int:
    """Read a counter to its end, to check its checksums; returns the number of pre-tokens."""
    with open_counter(task.counter, fingerprint=task.fingerprint) as counter:
        return sum(memoryview(counts).nbytes // 8 for _, _, counts in counter.read_all())


def write_tsv(task: WriteTask) -> int:
    """Write a counter as TSV, the most frequent pre-token first; returns the number of pre-tokens.

    Equally frequent pre-tokens keep the counter's order. The counter is read once for each band of counts whose
    pre-tokens fit in memory; the pre-tokens of a single count need not fit, since they are in order already.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    with (
        open_counter(task.counter, fingerprint=task.fingerprint) as counter,
        whole_file(task.output, EXPORT_REMEDY) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):

        def write(batch: Any) -> None:
            for pre_token, count in zip(batch["pre_token"].to_pylist(), batch["count"].to_pylist(), strict=True):
                file.write(f"{escaped(pre_token)}\t{count}\n")

        for least, most in _bands(map(as_batch, counter.read_all()), task.band_bytes):
            low, high = pa.scalar(least, pa.uint64()), pa.scalar(most, pa.uint64())
            within = (
                batch.filter(pc.and_(pc.greater_equal(batch["count"], low), pc.less_equal(batch["count"], high)))
                for batch in map(as_batch, counter.read_all())
            )
            if least == most:
                for batch in within:
                    write(batch)
            else:
                band = pa.Table.from_batches(list(within)).combine_chunks()
                order = pc.sort_indices(band, sort_keys=[("count", "descending")])  # stable
                for start in range(0, len(order), BATCH_ROWS):
                    write(band.take(order.slice(start, BATCH_ROWS)))
        return counter.rows


def _bands(batches: Iterator[Any], band_bytes: int) -> list[tuple[int, int]]:
    """Ranges of counts (least, most), the greatest first, whose pre-tokens take about `band_bytes` or have one
    count."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bytes_of: dict[int, int] = {}
    for batch in batches:
        table = pa.table({"count": batch["count"], "size": pc.binary_length(batch["pre_token"])})
        sums = table.group_by("count").aggregate([("size", "sum"), ("size", "count")])
        for row in sums.to_pylist():
            bytes_of[row["count"]] = bytes_of.get(row["count"], 0) + row["size_sum"] + 16 * row["size_count"]
    bands: list[tuple[int, int]] = []
    filled = 0
    for count in sorted(bytes_of, reverse=True):
        filled += bytes_of[count]
        if bands and filled <= band_bytes:
            bands[-1] = count, bands[-1][1]
        else:
            bands.append((count, count))
            filled = bytes_of[count]
    return bands
