"""`export-counts`: write a run's pre-token counts for other tools."""

import shutil

from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.counts import export_worker
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run import manifest
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.memory import WRITE_BYTES, Broker
from bpe_pipeline.run.options import OutputOptions
from bpe_pipeline.run.workers import executor_here
from bpe_pipeline.storage import Location, open_file
from bpe_pipeline.storage.atomic import single_output, whole_file

_BAND_SHARE = 4  # sorted pre-tokens take one in this many bytes of the budget: filtered, joined, taken, as text
_MOST_BAND_BYTES = 256 << 20


def different_pre_tokens(facts: Facts) -> int:
    """Return how many pre-tokens were written."""
    return int(facts["different_pre_tokens"])


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
    return Facts({"file": str(path), "different_pre_tokens": rows})
