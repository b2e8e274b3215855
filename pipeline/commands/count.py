"""`count`: count a corpus into a run directory, which then waits for `merge`."""

from pipeline.base.events import Listener
from pipeline.commands import report
from pipeline.counts import count as counting
from pipeline.executors import Executor
from pipeline.reports.summary import Summary
from pipeline.run import manifest
from pipeline.run.open_run import open_run
from pipeline.run.options import CountOptions
from pipeline.run.runner import opened


def run_count(options: CountOptions, executor: Executor, listener: Listener) -> Summary:
    """Count as far as the run directory does not hold it yet."""
    with opened(options, executor, listener) as (runner, directory):
        run = open_run(runner, directory, options)
        with runner.logged(directory, options, lambda: manifest.remove_partial(run)):
            return report.write_summary(runner, *counting.count(runner, run, options))
