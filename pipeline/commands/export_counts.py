"""`export-counts`: write a run's piece counts for other tools."""

import shutil

from pipeline.counts import export_worker
from pipeline.counts.count import require_counted
from pipeline.run import manifest
from pipeline.run.keywords import AnyPath
from pipeline.run.make_options import make_options
from pipeline.run.memory import WRITE_BYTES, Broker
from pipeline.run.options import OutputOptions
from pipeline.run.workers import executor_here
from pipeline.storage import named, open_file
from pipeline.storage.atomic import single_output, whole_file

_BAND_SHARE = 4  # sorted pieces take one in this many bytes of the budget: filtered, joined, taken, as text
_MOST_BAND_BYTES = 256 << 20


def export_counts(
    run: AnyPath, path: AnyPath, *, memory_limit: int | str | None = None, overwrite: bool = False
) -> int:
    """Write the counts of a run for other tools.

    Args:
        run: the run directory, a path or a URI.
        path: the file, a path or a URI: TSV in the format that `import-counts` reads, the most frequent piece first;
            or, if the name ends in `.parquet`, a copy of the run's combined counter.
        memory_limit: as of `pipeline.train`; with less memory the counter is read more often.
        overwrite: replace a file that exists. A link is followed.

    Returns:
        The number of different pieces.

    Raises:
        RunDirectoryError: for a run that is not completely counted, whose counter is damaged, or if the file exists,
            is not a regular one or cannot be written.

    >>> counted = pipeline.import_counts({"low": 5, "lower": 2}, output="runs/a")
    >>> pipeline.export_counts(counted, "counts.tsv")
    2
    """
    options = make_options(OutputOptions, {"workers": 1, "memory_limit": memory_limit, "overwrite": overwrite})
    to_parquet = named(path).suffix == ".parquet"
    target = single_output(named(path), overwrite=overwrite)
    grant = Broker.of(options.memory_limit).reserve(wanted=_BAND_SHARE * _MOST_BAND_BYTES + WRITE_BYTES)
    band_bytes = (grant.bytes - WRITE_BYTES) // _BAND_SHARE
    with executor_here(options) as executor:
        counted = require_counted(manifest.require(named(run, "run")), executor)
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
    return rows
