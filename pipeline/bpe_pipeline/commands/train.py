"""`train`: count, merge, export and report."""

import threading
from functools import partial
from typing import TYPE_CHECKING

from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.machine import usable_cores
from bpe_pipeline.counts.count import count
from bpe_pipeline.executors import Executor
from bpe_pipeline.run import manifest
from bpe_pipeline.run.open_run import open_run
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.runner import opened
from bpe_pipeline.tokenizer.export import check_before_work

if TYPE_CHECKING:
    from bpe_pipeline.reports.summary import Summary
    from bpe_pipeline.tokenizer.export import Trained


def _prepare_rest(chunks: int) -> None:
    """Import what follows counting; one chunk leaves a core idle, which prepares the page of the report."""
    import bpe_pipeline.commands.learn
    import bpe_pipeline.reports.numbers_worker  # noqa: F401

    if chunks < usable_cores():
        from bpe_pipeline.commands.report import prepare_page

        threading.Thread(target=prepare_page, name="page", daemon=True).start()


def run_train(options: TrainOptions, executor: Executor, listener: Listener) -> "tuple[Summary, Trained]":
    """Count, merge, export; each only as far as the run directory does not hold it yet."""
    broker = check_before_work(options, listener)
    with opened(options, executor, listener, broker) as (runner, directory):
        run = open_run(runner, directory, options)
        with runner.logged(directory, options, lambda: manifest.remove_partial(run)):
            executor.meanwhile(partial(_prepare_rest, len(run.manifest.plan.chunks)))
            if run.manifest.special:
                from bpe_pipeline.commands.learn import keep_ids

                keep_ids(runner, run, options)
            run, counted = count(runner, run, options)
            from bpe_pipeline.commands.learn import merge_and_export

            return merge_and_export(runner, run, counted, options)
