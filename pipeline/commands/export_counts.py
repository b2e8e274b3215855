"""`export-counts`: write a run's piece counts for other tools."""

import shutil

from pipeline.commands.preload import TRAINING
from pipeline.counts import export_worker
from pipeline.counts.counted import require_counted
from pipeline.reports.result import Facts
from pipeline.run import manifest
from pipeline.run.make_options import make_options
from pipeline.run.memory import WRITE_BYTES, Broker
from pipeline.run.options import OutputOptions
from pipeline.run.workers import executor_here
from pipeline.storage import Location, open_file
from pipeline.storage.atomic import single_output, whole_file

_BAND_SHARE = 4  # sorted pieces take one in this many bytes of the budget: filtered, joined, taken, as text
_MOST_BAND_BYTES = 256 << 20


def different_pieces(facts: Facts) -> int:
    """Return how many pieces were written."""
    return int(facts["different_pieces"])


def run_export_counts(run: Location, path: Location, memory_limit: int | None, *, overwrite: bool) -> Facts:
    """Write the counts of a run to a file."""
    options = make_options(OutputOptions, {"workers": 1, "memory_limit": memory_limit, "overwrite": overwrite})
    to_parquet = path.suffix == ".parquet"
    target = single_output(path, overwrite=overwrite)
    grant = Broker.of(options.memory_limit).reserve(wanted=_BAND_SHARE * _MOST_BAND_BYTES + WRITE_BYTES)
    band_bytes = (grant.bytes - WRITE_BYTES) // _BAND_SHARE
    with executor_here(options, TRAINING) as executor:
        counted = require_counted(manifest.require(run), executor)
        task = export_worker.WriteTask(counted.path, counted.fingerprint, target, band_bytes)
        # a damaged counter is not passed on
        rows = executor.one(export_worker.read_whole if to_parquet else export_worker.write_tsv, task)
    if to_parquet:
        with (
            whole_file(target, export_worker.EXPORT_REMEDY) as partial,
            open_file(counted.path) as counter,
            partial.open("wb") as copy,
        ):
            shutil.copyfileobj(counter, copy, 1 << 20)
    return Facts({"file": str(path), "different_pieces": rows})
