"""`train_from_iterator`: the documents of an iterable become counts, then an ordinary run.

The iterable is read in the caller's process, while threads count in the native core, without Python's lock. An iterable
cannot be read again: counting is not resumed after a stop, but what follows it is.
"""

import os
from collections.abc import Iterable
from typing import Any

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.commands.learn import merge_and_export
from bpe_pipeline.corpus.items import blocks
from bpe_pipeline.counts.combine import take_counts
from bpe_pipeline.counts.count_documents import count_documents
from bpe_pipeline.counts.counter_file import PartPath, Sum
from bpe_pipeline.executors import Executor
from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.manifest import Manifest, Run
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.patterns import cut_by, pattern_of
from bpe_pipeline.run.plan import with_share
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.runner import opened
from bpe_pipeline.run.texts import Source
from bpe_pipeline.run.workers import thread_count
from bpe_pipeline.tokenizer.export import Trained, check_before_work

_KEPT_BYTES, _KEPT_THREAD_BYTES = 24 << 20, 4 << 20  # that this process still holds when all is written


def train_on(
    documents: Iterable[Any], options: TrainOptions, executor: Executor, listener: Listener
) -> tuple[Summary, Trained]:
    """Count the documents, merge and export."""
    source = Source("iterator", os.urandom(16).hex(), "an iterator")
    if isinstance(options.sample, int):
        raise UsageError("option 'sample': a size is one of files; give a share such as 0.01")
    import pyarrow.parquet  # noqa: F401  # which writes the counters: with it this process is as large as it will be

    kept_bytes = _KEPT_BYTES + thread_count(options.workers) * _KEPT_THREAD_BYTES
    broker = check_before_work(options, listener, kept_bytes)  # before anything is read
    with opened(options, executor, listener, broker, resumable=False) as (runner, directory):
        if not options.overwrite and manifest.load(directory.location) is not None:
            raise RunDirectoryError(
                f"{directory} holds a run, and an iterator cannot be read again to see whether it is the same: "
                "continue with merge, choose another output, or start again with overwrite=True"
            )

        def read(run: Run, part_path: PartPath) -> Sum:
            return count_documents(runner, run, part_path, blocks(documents, options.text_field), options)

        counting = with_share(options.in_scope(Scope.COUNT), ())
        new = Run(directory, Manifest(counting, cut_by(pattern_of(options)), source=source))
        with take_counts(runner, new, options, read) as (run, counted):
            return merge_and_export(runner, run, counted, options)
