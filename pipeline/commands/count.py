"""`count`: count a corpus into a run directory, which then waits for `merge`."""

from collections.abc import Sequence
from typing import Unpack

from pipeline.base.errors import UsageError
from pipeline.base.events import Listener
from pipeline.commands import report
from pipeline.counts import count as counting
from pipeline.executors import Executor
from pipeline.reports.progress import for_python
from pipeline.reports.summary import Summary
from pipeline.run import manifest
from pipeline.run.keywords import AnyPath, CountKeywords
from pipeline.run.listed_options import lists_options
from pipeline.run.make_options import make_options
from pipeline.run.open_run import open_run
from pipeline.run.options import CountOptions
from pipeline.run.runner import opened
from pipeline.run.workers import executor_for


@lists_options
def count(
    inputs: AnyPath | Sequence[AnyPath] | None = None, *, progress: bool = False, **options: Unpack[CountKeywords]
) -> Summary:
    """Count the pieces of a corpus into a run directory, for `merge_run`.

    Args:
        inputs: as of `train`.
        progress: as of `train`.
        **options: the command's options with underscores, as listed below.

    Returns:
        What was counted: `directory`, `corpus`, `pattern` and how long it took; printed, it is the command's summary.

    Raises:
        PipelineError: as `train` does.

    >>> counted = pipeline.count("corpus.txt", output="runs/counted")
    >>> counted.corpus.pieces, counted.corpus.different_pieces
    (60, 6)
    >>> len(pipeline.merge_run(counted.directory, vocab_size=270)[270])
    270
    """
    settled = make_options(CountOptions, {"inputs": inputs, **options})
    if settled.dry_run:
        raise UsageError("dry_run prints a plan and counts nothing: use the command, bpe-pipeline count --dry-run")
    with for_python(progress) as listener, executor_for(settled) as executor:
        return run_count(settled, executor, listener)


def run_count(options: CountOptions, executor: Executor, listener: Listener) -> Summary:
    """Count as far as the run directory does not hold it yet."""
    with opened(options, executor, listener) as (runner, directory):
        run = open_run(runner, directory, options)
        with runner.logged(directory, options, lambda: manifest.remove_partial(run)):
            return report.write_summary(runner, *counting.count(runner, run, options))
