"""`train`: count, merge, export and report."""

import threading
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Unpack

import pipeline
from pipeline.base.errors import UsageError
from pipeline.base.events import Listener
from pipeline.base.machine import usable_cores
from pipeline.counts.count import count
from pipeline.executors import Executor
from pipeline.reports.progress import for_python
from pipeline.run import manifest
from pipeline.run.keywords import AnyPath, TrainKeywords
from pipeline.run.listed_options import lists_options
from pipeline.run.make_options import make_options
from pipeline.run.open_run import open_run
from pipeline.run.options import TrainOptions
from pipeline.run.runner import opened
from pipeline.run.workers import executor_for
from pipeline.tokenizer.export import check_before_work

if TYPE_CHECKING:
    from pipeline.reports.summary import Summary
    from pipeline.tokenizer.export import Trained


@lists_options
def train(
    inputs: AnyPath | Sequence[AnyPath] | None = None, *, progress: bool = False, **options: Unpack[TrainKeywords]
) -> "pipeline.Tokenizer":  # imported when it is asked for
    """Train a tokenizer and return it.

    A run directory that holds the same run is resumed; one that holds another run is refused. What a person should know
    (a pattern that runs slowly, an empty file) is a Python warning.

    Args:
        inputs: files, directories, globs and URIs; None: the sample corpus (the running Python's own standard library).
        progress: whether to show how far the work is: bars on a terminal and in a notebook, elsewhere lines.
        **options: the command's options with underscores, such as `output="runs/a"`, `vocab_size=32_000`,
            `special_tokens=["<|endoftext|>"]`, `pattern="gpt2"`, `workers=8`, as listed below.

    Returns:
        The tokenizer. Of several sizes (`vocab_size=[8_000, 32_000]`) the first; all are in the run directory, and
        `merge_run` returns them all.

    Raises:
        UsageError: for an option that means nothing.
        InputError: for a corpus that cannot be read.
        RunDirectoryError: for a directory that holds another run, is damaged or cannot be written.
        TrainingError: if training cannot do what was asked.
        PipelineError: the family of all of these.

    >>> tokenizer = pipeline.train("corpus.txt", output="runs/a", vocab_size=270)
    >>> tokenizer.decode(tokenizer.encode("low lower"))
    'low lower'
    """
    settled = make_options(TrainOptions, {"inputs": inputs, **options})
    if settled.dry_run:
        raise UsageError("dry_run prints a plan and trains nothing: use the command, bpe-pipeline train --dry-run")
    with for_python(progress) as listener, executor_for(settled) as executor:
        _, trained = run_train(settled, executor, listener)
    return pipeline.Tokenizer.from_model(trained.model(trained.options.vocab_size[0]))


def _prepare_rest(chunks: int) -> None:
    """Import what follows counting; one chunk leaves a core idle, which prepares the page of the report."""
    import_module("pipeline.commands.merge")
    import_module("pipeline.reports.numbers_worker")
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
                from pipeline.commands.merge import keep_ids

                keep_ids(runner, run, options)
            run, counted = count(runner, run, options)
            from pipeline.commands.merge import merge_and_export

            return merge_and_export(runner, run, counted, options)
