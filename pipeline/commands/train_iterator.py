"""The story of `train_from_iterator`: documents that the caller's process has become counts, then an ordinary run.

The iterable is read in the caller's process, where it lives; threads count beside it, in the native core and so
without Python's lock. Counters that grow too large are written out in parts and begun anew, so memory stays bounded.
An iterable cannot be read again: counting is not resumed after a stop, but what follows it is.
"""

import os
import queue
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

from pipeline import _core
from pipeline.base.errors import (
    InputError,
    InvalidTextError,
    PatternTimeoutError,
    RunDirectoryError,
    TrainingError,
    UsageError,
)
from pipeline.base.events import warn_of
from pipeline.commands.merge import merge_and_export
from pipeline.corpus.items import blocks
from pipeline.corpus.records import Records
from pipeline.corpus.skipped_or_altered import SkippedOrAltered, Tally, in_words
from pipeline.counts import combine_worker, counter_file
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.count import STAGE
from pipeline.counts.elsewhere import PartPath, Parts, take_counts
from pipeline.counts.feeding import LOCATED, RegexCutter
from pipeline.pattern import CompiledPattern, compile_pattern
from pipeline.run import manifest, memory
from pipeline.run.manifest import Run, Source
from pipeline.run.open_run import cut_by, special_bytes
from pipeline.run.options import Options, make_options, names_of, refuse_unfit
from pipeline.run.work import Advance, Work, open_work
from pipeline.run.workers import executor_here
from pipeline.storage import Location
from pipeline.tokenizer.export import check_before_work
from pipeline.tokenizer.formats.save import FILE_NAMES
from pipeline.tokenizer.tokenizer import Tokenizer

_LEAST_COUNTER_BYTES = 1 << 20
_KEPT_BYTES, _KEPT_THREAD_BYTES = 24 << 20, 4 << 20  # that this process has not given back when all is written
Examples: TypeAlias = dict[str, list[tuple[int, str]]]  # by what the counter notes: number of the item, place
_MEMORY_SHARE = 4  # all counters together may take one in so many bytes of what there is room for


def train_from_iterator(documents: Iterable[Any], *, text_field: str = "text", **options: Any) -> Tokenizer:
    """Train a tokenizer on the documents of an iterable, in bounded memory, and return it.

    A lone surrogate in a str is treated as `errors` says of invalid UTF-8; replaced, each is one U+FFFD. An iterable
    cannot be read again, so a stop while counting changes nothing: what `overwrite` replaces stays until the counts are
    whole. They are an ordinary run, from which `merge_run` continues.

    Args:
        documents: any iterable of str or bytes, each item a document of its own; or of mappings with one of these in
            `text_field`; or of pyarrow Arrays, RecordBatches or Tables, or one of these; or a `datasets.Dataset`.
            Columns go to the core without becoming Python strings. A special token inside an item separates documents.
        text_field: the key of the text in a mapping, or the column in a table.
        **options: as of `pipeline.train`, such as `output="runs/a"`, `vocab_size=32_000`; `workers` is the number of
            threads. Counters take at most a quarter of `memory_limit` before they are written out.

    Returns:
        The tokenizer; of several sizes the first.

    Raises:
        PipelineError: as `train` does.
        Exception: whatever the iterable raises.
    """
    refuse_unfit(options, names_of("encode"), "training")
    settled = make_options(options)
    if settled.inputs is not None or settled.dry_run:
        raise UsageError("inputs and dry_run mean nothing for an iterator; leave them out")
    pattern = compile_pattern(settled.pattern, timeout_s=settled.pattern_timeout)
    check_before_work(settled, pattern)
    _refuse_small_limit(settled)
    with (
        executor_here(settled) as executor,
        open_work(settled, pattern, executor, warn_of, resumable=False) as work,
    ):
        if not settled.overwrite and manifest.load(work.directory.location) is not None:
            raise RunDirectoryError(
                f"{work.directory} holds a run, and an iterator cannot be read again to see whether it is the same: "
                "continue with merge_run, choose another output, or start again with overwrite=True"
            )

        def read(run: Run, part_path: PartPath) -> Parts:
            return _count(work, run, part_path, blocks(documents, text_field))

        source = Source("iterator", os.urandom(16).hex(), "an iterator")
        run, counted = take_counts(work, settled.of_stage("count"), cut_by(pattern), source, read)
        run = manifest.store_merge_options(run, settled, FILE_NAMES)
        with work.logged(lambda: manifest.remove_partial(run)):
            trained = merge_and_export(work, run, counted)[1]
    return Tokenizer.from_model(trained.model(settled.vocab_size[0]))


def _refuse_small_limit(options: Options) -> None:
    """Refuse, before anything is read, a limit that is too small for this process when all is counted."""
    import pyarrow.parquet  # noqa: F401  # which writes the counters: with it this process is as large as it will be

    whole = memory.budget(options.memory_limit)
    kept = _KEPT_BYTES + memory.threads(options) * _KEPT_THREAD_BYTES
    replace(whole, taken_bytes=whole.taken_bytes + kept).workers(1)


def _count(work: Work, run: Run, part_path: PartPath, documents: Iterable[Records]) -> Parts:
    work.warn_of_regex()
    with work.stage(STAGE, 0, "bytes") as advance:
        counting = _Counting(work, run, part_path)
        counting.feed(documents, advance)
        for loss in counting.lost:
            work.warn(str(loss))
        parts, statistics = counting.finish()
        del counting
        combine_worker.give_back_memory()  # a worker combines and merges in parallel with this process
    return Parts(parts, statistics)


class _Counter:
    """A counter that one thread at a time feeds; written out and begun anew when it has grown."""

    def __init__(self, pattern: CompiledPattern, special_tokens: tuple[bytes, ...], options: Options) -> None:
        self._pattern, self._special_tokens, self._options = pattern, special_tokens, options
        self._begin()

    def _begin(self) -> None:
        self.cutter: Any = self._pattern.automaton or RegexCutter(self._pattern)
        self.counter = _core.ChunkCounter(
            self.cutter,
            list(self._special_tokens),
            errors=self._options.errors,
            max_piece_bytes=self._options.max_piece_bytes,
        )
        self._examples: Examples = {key: [] for key in LOCATED}

    def feed(self, block: Records) -> None:
        before = self.counter.statistics()
        try:
            self.counter.feed_documents(block.offsets, block.data, block.offset_bytes)
        except ValueError as error:
            after = self.counter.statistics()
            if self._options.errors != "strict" or not after["invalid_offsets"]:
                raise TrainingError(f"items {block.position(0)} and after cannot be counted: {error}") from None
            _, place = _place(block, after["invalid_offsets"][-1] - before["bytes"])
            raise InvalidTextError(
                f"{place} is invalid UTF-8 or a lone surrogate; fix it, or choose errors='replace' or errors='skip'"
            ) from None
        except PatternTimeoutError as error:  # of the document that was fed last
            number, _ = _place(block, self.counter.statistics()["bytes"] - before["bytes"] - 1)
            raise PatternTimeoutError(f"item {number}: {error}") from None
        after = self.counter.statistics()
        for key, places in self._examples.items():
            places += (_place(block, offset - before["bytes"]) for offset in after[key][len(before[key]) :])

    def end(self) -> tuple[ChunkStatistics, Examples]:
        """Its statistics and examples; a new counter takes its place."""
        characters = self.cutter.concerned() if isinstance(self.cutter, RegexCutter) else ""
        statistics = replace(ChunkStatistics.from_values(self.counter.statistics()), concerned_characters=characters)
        examples = self._examples
        self._begin()
        return statistics, examples


def _place(block: Records, offset: int) -> tuple[int, str]:
    """The item, and for people the place, of a byte of a block."""
    row = block.row_at(offset)
    number = block.position(row)
    return number, f"item {number}, byte {offset + block.starts[0] - block.starts[row]}"


class _Counting:
    """Threads that count blocks, each with one of as many counters, and what they have written so far."""

    def __init__(self, work: Work, run: Run, part_path: PartPath) -> None:
        options = work.options
        self._part_path = part_path
        self._threads = memory.threads(options)
        self._counter_bytes = max(
            _LEAST_COUNTER_BYTES, memory.budget(options.memory_limit).room(1) // (_MEMORY_SHARE * self._threads)
        )
        special_tokens = special_bytes(options)
        self._idle: queue.SimpleQueue[_Counter] = queue.SimpleQueue()
        for _ in range(self._threads):
            self._idle.put(_Counter(work.pattern, special_tokens, options))
        self._lock = threading.Lock()
        self._fingerprint = run.manifest.counter_fingerprint()
        self._parts: list[tuple[Location, str]] = []
        self._statistics: list[ChunkStatistics] = []
        self._examples: Examples = {key: [] for key in LOCATED}
        self._tally = Tally()

    @property
    def lost(self) -> tuple[SkippedOrAltered, ...]:
        """The records so far that are no documents."""
        return in_words(self._tally.found)

    def feed(self, documents: Iterable[Records], advance: Advance) -> None:
        """Count all blocks. Raises the first error of any thread, `InputError` where there are none."""
        items = 0
        waiting: deque[Future[int]] = deque()
        with ThreadPoolExecutor(self._threads, "count") as pool:
            try:
                for block in documents:
                    items += block.rows
                    for skipped in block.skipped:
                        self._tally.add(skipped.kind, skipped.count, (f"item {at}" for at in skipped.positions))
                    waiting.append(pool.submit(self._feed, block))
                    del block
                    if len(waiting) > self._threads:
                        advance(waiting.popleft().result())
                while waiting:
                    advance(waiting.popleft().result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        if items == 0:
            raise InputError(
                "the iterator gave no documents: it is empty, or was read to its end before; give a list, or begin the "
                "iterator anew"
            )

    def _feed(self, block: Records) -> int:
        counter = self._idle.get()
        try:
            counter.feed(block)
            if counter.counter.memory_bytes() > self._counter_bytes:
                self._write(counter)
        finally:
            self._idle.put(counter)
        return int(block.starts[block.rows] - block.starts[0])

    def _write(self, counter: _Counter) -> None:
        with self._lock:
            path = self._part_path(len(self._parts))
            self._parts.append((path, self._fingerprint))
        partitions = counter_file.counter_partitions(counter.counter)
        counter_file.write_counter(path, partitions, fingerprint=self._fingerprint)
        statistics, examples = counter.end()
        with self._lock:
            self._statistics.append(statistics)
            for key, places in examples.items():
                self._examples[key] += places

    def finish(self) -> tuple[list[tuple[Location, str]], ChunkStatistics]:
        """Write what is left; the parts with their fingerprint, and the statistics of all of them together."""
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(self._write, [self._idle.get() for _ in range(self._threads)]))
        statistics = sum(self._statistics, ChunkStatistics())
        for key, places in self._examples.items():
            for kind in LOCATED[key]:
                self._tally.add(kind, getattr(statistics, kind), (place for _, place in sorted(places)))
        return self._parts, replace(statistics, losses=self._tally.found)
