"""`train_from_iterator`: the documents of an iterable become counts, then an ordinary run.

The iterable is read in the caller's process, while threads count in the native core, without Python's lock. An iterable
cannot be read again: counting is not resumed after a stop, but what follows it is.
"""

import os
from collections.abc import Iterable
from typing import Any

from pipeline.base.errors import RunDirectoryError, UsageError
from pipeline.commands.learn import merge_and_export
from pipeline.commands.preload import TRAINING
from pipeline.commands.tokenizers import first_tokenizer
from pipeline.corpus.items import blocks
from pipeline.counts.coarse import refuse_without_texts
from pipeline.counts.count_documents import count_documents
from pipeline.counts.counter_file import PartPath, Parts
from pipeline.counts.elsewhere import take_counts
from pipeline.reports.progress import for_python
from pipeline.run import manifest
from pipeline.run.keywords import lists_options
from pipeline.run.make_options import make_options
from pipeline.run.manifest import Manifest, Run, Source
from pipeline.run.options import TrainOptions
from pipeline.run.patterns import cut_by, pattern_of
from pipeline.run.runner import opened
from pipeline.run.workers import executor_here, thread_count
from pipeline.tokenizer.export import check_before_work
from pipeline.tokenizer.tokenizer import Tokenizer

_KEPT_BYTES, _KEPT_THREAD_BYTES = 24 << 20, 4 << 20  # that this process still holds when all is written


@lists_options(TrainOptions)
def train_from_iterator(documents: Iterable[Any], *, progress: bool = False, **options: Any) -> Tokenizer:
    """Train a tokenizer on the documents of an iterable, in bounded memory, and return it.

    A lone surrogate in a str is treated as `errors` says of invalid UTF-8; replaced, each is one U+FFFD. An iterable
    cannot be read again, so a stop while counting changes nothing: what `overwrite` replaces stays until the counts are
    whole. They are an ordinary run, from which `merge_run` continues.

    Args:
        documents: any iterable of str or bytes, each item a document of its own; or of mappings with one of these in
            `text_field`; or of lists of these, as batches; or of pyarrow Arrays, RecordBatches or Tables, or one of
            these; or a `datasets.Dataset`. Columns go to the core without becoming Python
            strings. A special token inside an item separates documents.
        progress: whether to show how far the work is: bars on a terminal and in a notebook, elsewhere lines.
        **options: as of `pipeline.train`, such as `output="runs/a"`, `vocab_size=32_000`. `text_field="text"` is the
            key of the text in a mapping, or the column in a table. `workers` is the number of threads. Counters take
            at most a quarter of `memory_limit` before they are written out.

    Returns:
        The tokenizer; of several sizes the first.

    Raises:
        PipelineError: as `train` does.
        Exception: whatever the iterable raises.

    >>> documents = ["low low lower", "newest"]
    >>> pipeline.train_from_iterator(documents, output="runs/a", vocab_size=259).merges
    [(b'l', b'o'), (b'lo', b'w')]
    """
    settled = make_options(TrainOptions, options)
    if settled.inputs is not None or settled.exclude or settled.weights or settled.dry_run:
        raise UsageError("inputs, exclude, weights and dry_run mean nothing for an iterator; leave them out")
    source = Source("iterator", os.urandom(16).hex(), "an iterator")
    refuse_without_texts(settled, source)
    with for_python(progress) as listener, executor_here(settled, TRAINING) as executor:
        import pyarrow.parquet  # noqa: F401  # which writes the counters: with it this process is as large as it will be

        kept_bytes = _KEPT_BYTES + thread_count(settled.workers) * _KEPT_THREAD_BYTES
        broker = check_before_work(settled, listener, kept_bytes)  # before anything is read
        with opened(settled, executor, listener, broker, resumable=False) as (runner, directory):
            if not settled.overwrite and manifest.load(directory.location) is not None:
                raise RunDirectoryError(
                    f"{directory} holds a run, and an iterator cannot be read again to see whether it is the same: "
                    "continue with merge_run, choose another output, or start again with overwrite=True"
                )

            def read(run: Run, part_path: PartPath) -> Parts:
                return count_documents(runner, run, part_path, blocks(documents, settled.text_field), settled)

            new = Run(directory, Manifest(settled.of_stage("count"), cut_by(pattern_of(settled)), source=source))
            with take_counts(runner, new, settled, read) as (run, counted):
                return first_tokenizer(merge_and_export(runner, run, counted, settled))
