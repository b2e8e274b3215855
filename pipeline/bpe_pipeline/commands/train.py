"""`train`: count, merge, export and report."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.machine import usable_cores
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.counts.count import count
from bpe_pipeline.counts.counted import Counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.run.make_options import check_vocabulary
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.memory import Broker
from bpe_pipeline.run.open_run import open_run
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.runner import OF_SUPERWORDS, Runner, opened
from bpe_pipeline.tokenizer.export import check_before_work

if TYPE_CHECKING:
    from bpe_pipeline.reports.summary import Summary
    from bpe_pipeline.tokenizer.export import Trained


def _prepare_rest(chunks: int, broker: Broker) -> None:
    """Import what follows counting; one chunk leaves a core idle, which prepares the page of the report."""
    import bpe_pipeline.commands.learn
    import bpe_pipeline.reports.numbers_worker  # noqa: F401

    if chunks < usable_cores():
        from bpe_pipeline.commands.report import prepare_page

        threading.Thread(target=prepare_page, args=(broker,), name="page", daemon=True).start()


def run_train(options: TrainOptions, executor: Executor, listener: Listener) -> "tuple[Summary, Trained]":
    """Count, merge, export; each only as far as the run directory does not hold it yet."""
    if options.first_size is not None:
        return _train_superwords(options, executor, listener)
    broker = check_before_work(options, listener)
    with (
        opened(options, executor, listener, broker) as (runner, directory),
        _counted(runner, directory, options) as (run, counted),
    ):
        from bpe_pipeline.commands.learn import merge_and_export

        return merge_and_export(runner, run, counted, options)


def _train_superwords(options: TrainOptions, executor: Executor, listener: Listener) -> "tuple[Summary, Trained]":
    """Count and merge the first stage in a run next to the output, then the second stage in the output."""
    from bpe_pipeline.commands import first_stage
    from bpe_pipeline.commands.learn import merge_and_export
    from bpe_pipeline.merges import merge

    check_vocabulary(options)
    second = first_stage.options_of_second(options)
    broker = check_before_work(second, listener)
    with opened(second, executor, listener, broker) as (runner, directory):
        home = Directory(first_stage.location_for(directory.location), RUN)
        first = first_stage.options_of_first(options, home.location)
        with home.locked(), _counted(runner, home, first) as (run, counted):
            run = manifest.store_merging(run, first)
            merge.learn(runner, merge.learning_of(run), counted, first)
        stage, learned = first_stage.stage_in(run, executor)
        if len(BYTE_ORDER) + len(learned) < (options.first_size or 0):
            runner.inform(
                f"no pair is left after {len(learned):,} merges, before the {options.first_size:,} tokens of "
                "--superwords-from: superwords are learned from there on"
            )
        with _counted(runner, directory, second, OF_SUPERWORDS) as (run, counted):
            first_stage.require_same_text(manifest.require(home.location), run, executor)
            run = first_stage.set_stage(runner, run, stage)
            return merge_and_export(runner, run, counted, second)


@contextmanager
def _counted(
    runner: Runner, directory: Directory, options: TrainOptions, suffix: str = ""
) -> Iterator[tuple[Run, Counted]]:
    """Yield the run of these options, counted as far as it was not yet, and log. suffix: of the names of stages."""
    run = open_run(runner, directory, options)
    with runner.logged(directory, options, run.remove_partial):
        runner.executor.meanwhile(partial(_prepare_rest, len(run.manifest.plan.chunks), runner.broker))
        if run.manifest.special:
            from bpe_pipeline.commands.learn import keep_ids

            keep_ids(runner, run, options)
        with runner.naming(suffix):
            done = count(runner, run, options)
        yield done
