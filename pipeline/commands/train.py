"""`train`: count, merge, export and report."""

import threading
from functools import partial
from typing import TYPE_CHECKING

from pipeline.base.events import Listener
from pipeline.base.machine import usable_cores
from pipeline.counts.count import count
from pipeline.executors import Executor
from pipeline.run import manifest
from pipeline.run.open_run import open_run
from pipeline.run.options import TrainOptions
from pipeline.run.runner import opened
from pipeline.tokenizer.export import check_before_work

if TYPE_CHECKING:
    from pipeline.reports.summary import Summary
    from pipeline.tokenizer.export import Trained


def _prepare_rest(chunks: int) -> None:
    """Import what follows counting; one chunk leaves a core idle, which prepares the page of the report."""
    import pipeline.commands.learn
    import pipeline.reports.numbers_worker  # noqa: F401

    if chunks < usable_cores():
        from pipeline.commands.report import prepare_page

        threading.Thread(target=prepare_page, name="page", daemon=True).start()


def run_train(options: TrainOptions, executor: Executor, listener: Listener) -> "tuple[Summary, Trained]":
    """Count, merge, export; each only as far as the run directory does not hold it yet."""
    broker = check_before_work(options, listener)
    with opened(options, executor, listener, broker) as (runner, directory):
        run = open_run(runner, directory, options)
        with runner.logged(directory, options, lambda: manifest.remove_partial(run)):
            executor.meanwhile(partial(_prepare_rest, len(run.manifest.plan.chunks)))
            if run.manifest.special:
                from pipeline.commands.learn import keep_ids

                keep_ids(runner, run, options)
            run, counted = count(runner, run, options)
            from pipeline.commands.learn import merge_and_export

            return merge_and_export(runner, run, counted, options)
