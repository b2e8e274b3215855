"""The story of `train_from_iterator`: documents that the caller's process has become counts, then an ordinary run.

The iterable is read in the caller's process, where it lives; threads count beside it, in the native core and so
without Python's lock. Counters that grow too large are written out in parts and begun anew, so memory stays bounded.
An iterable cannot be read again: counting is not resumed after a stop, but what follows it is.
"""

import bisect
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
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
from pipeline.base.events import Advanced, Listener, Notice, StageEnded, StageStarted, warn_of
from pipeline.commands.train import at_work, directory_for, first_tokenizer, merge_and_export
from pipeline.corpus.items import Block, blocks
from pipeline.corpus.losses import Loss, Tally, for_people
from pipeline.counts import combine_worker, count, counter_file, sources
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.feeding import PLACED, RegexCutter
from pipeline.counts.sources import Opened
from pipeline.executors import Executor
from pipeline.pattern import CompiledPattern, compile_pattern
from pipeline.run import manifest, memory, plan
from pipeline.run.manifest import Run, Source
from pipeline.run.options import Options, make_options, names_of, refuse_unfit
from pipeline.run.workers import executor_here
from pipeline.storage import Location
from pipeline.tokenizer.export import check_before_work
from pipeline.tokenizer.tokenizer import Tokenizer

_LEAST_COUNTER_BYTES = 1 << 20
_KEPT_BYTES, _KEPT_THREAD_BYTES = 24 << 20, 4 << 20  # that this process has not given back when all is written
Examples: TypeAlias = dict[str, list[tuple[int, str]]]  # by what the counter notes: number of the item, place
_MEMORY_SHARE = 4  # all counters together may take one in so many bytes of what there is room for


def train_from_iterator(documents: Iterable[Any], *, text_field: str = "text", **options: Any) -> Tokenizer:
    """Train a tokenizer on documents that an iterable gives, in bounded memory, and return it.

    documents: any iterable of str or bytes, each item a document of its own; or of mappings with one of these in
        `text_field`; or of pyarrow Arrays, RecordBatches or Tables, or one of these; or a `datasets.Dataset`. Columns
        go to the core without becoming Python strings. A special token inside an item separates documents there too.
    options: as of `pipeline.train`, such as `output="runs/a"`, `vocab_size=32_000`; `workers` is the number of threads.
        Counters take a quarter of `memory_limit` at most before they are written out.

    A lone surrogate in a str is dealt with as `errors` says of invalid UTF-8; replaced, each is one U+FFFD. An iterable
    cannot be read again, so what was stopped while counting is not resumed, and has changed nothing: what `overwrite`
    replaces lies there until the counts are whole. These are an ordinary run that `merge_run` goes on with. Raises as
    `train` does, and whatever the iterable raises.
    """
    refuse_unfit(options, names_of("encode"), "training")
    settled = make_options(options)
    if settled.inputs is not None or settled.dry_run:
        raise UsageError("inputs and dry_run mean nothing for an iterator; leave them out")
    pattern = compile_pattern(settled.pattern, timeout_s=settled.pattern_timeout)
    check_before_work(settled, pattern)
    _refuse_small_limit(settled)
    directory = directory_for(settled)
    with executor_here(settled) as executor, at_work(directory, settled, executor, warn_of, resumable=False) as stages:
        opened = _open(directory, pattern, settled)
        counted = _count(opened, blocks(documents, text_field, settled.errors), pattern, settled, executor, warn_of)
        run = manifest.with_merging(opened.run, settled)
        with stages.logged(run):
            return first_tokenizer(merge_and_export(run, counted, pattern, settled, executor, warn_of, stages)[1])


def _refuse_small_limit(options: Options) -> None:
    """Refuse, before anything is read, a limit that this process would leave no room in when all is counted."""
    import pyarrow.parquet  # noqa: F401  # which writes the counters: with it this process is as large as it will be

    whole = memory.budget(options.memory_limit)
    kept = _KEPT_BYTES + plan.threads(options) * _KEPT_THREAD_BYTES
    replace(whole, taken_bytes=whole.taken_bytes + kept).workers(1)


def _open(directory: Location, pattern: CompiledPattern, options: Options) -> Opened:
    if not options.overwrite and manifest.load(directory) is not None:
        raise RunDirectoryError(
            f"{directory} holds a run, and an iterator cannot be read again to see whether it is the same: "
            "go on with merge_run, choose another output, or start anew with overwrite=True"
        )
    source = Source("iterator", os.urandom(16).hex(), "an iterator")
    return sources.open_run(
        directory, options.of_stage("count"), plan.cut_by(pattern), source, overwrite=options.overwrite
    )


def _count(
    opened: Opened,
    documents: Iterable[Block],
    pattern: CompiledPattern,
    options: Options,
    executor: Executor,
    listener: Listener,
) -> count.Counted:
    started = time.monotonic()
    listener(StageStarted(count.STAGE, 0, "bytes"))
    if pattern.refusal is not None:
        listener(Notice("warning", f"the pattern runs on the regex package, slower: {pattern.refusal}"))
    run = opened.run
    with sources.beside(run) as place:
        counting = _Counting(run, place.part, pattern, options)
        counting.feed(documents, listener)
        for loss in counting.lost:
            listener(Notice("warning", str(loss)))
        parts, statistics = counting.finish()
        del counting
        combine_worker.give_back_memory()  # a worker combines and merges beside this process
        counting_s = time.monotonic() - started
        listener(StageEnded(count.STAGE, counting_s))
        started = time.monotonic()
        rows = sources.combine_parts(run, parts, place, statistics, options, executor)
        times: dict[str, float | None] = {count.STAGE: counting_s, count.COMBINING: time.monotonic() - started}
        counted = count.as_counted(run, rows, statistics, times)
        count.check_facts(counted.facts, options)
        sources.settle(opened, place)
    return counted


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
        self._examples: Examples = {key: [] for key in PLACED}

    def feed(self, block: Block) -> None:
        before = self.counter.statistics()
        try:
            self.counter.feed_documents(block.offsets, block.data, block.offsets.itemsize)
        except ValueError as error:
            after = self.counter.statistics()
            if self._options.errors != "strict" or not after["invalid_offsets"]:
                raise TrainingError(f"items {block.first} and after cannot be counted: {error}") from None
            _, place = _place(block, after["invalid_offsets"][-1] - before["bytes"])
            raise InvalidTextError(
                f"{place} is invalid UTF-8; mend it, or choose errors='replace' or errors='skip'"
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


def _place(block: Block, offset: int) -> tuple[int, str]:
    """The item, and for people the place, of a byte of a block."""
    offset += block.offsets[0]
    row = bisect.bisect_right(block.offsets, offset) - 1
    number = block.first + min(row, block.rows - 1)
    return number, f"item {number}, byte {offset - block.offsets[number - block.first]}"


class _Counting:
    """Threads that count blocks, each with one of as many counters, and what they have written so far."""

    def __init__(self, run: Run, part_path: Callable[[int], Path], pattern: CompiledPattern, options: Options) -> None:
        self._part_path = part_path
        self._threads = plan.threads(options)
        self._counter_bytes = max(
            _LEAST_COUNTER_BYTES, memory.budget(options.memory_limit).room(1) // (_MEMORY_SHARE * self._threads)
        )
        special_tokens = plan.special_bytes(run.manifest)
        self._idle: queue.SimpleQueue[_Counter] = queue.SimpleQueue()
        for _ in range(self._threads):
            self._idle.put(_Counter(pattern, special_tokens, options))
        self._lock = threading.Lock()
        self._fingerprint = run.manifest.counter_fingerprint()
        self._parts: list[tuple[Location, str]] = []
        self._statistics: list[ChunkStatistics] = []
        self._examples: Examples = {key: [] for key in PLACED}
        self._tally = Tally()

    @property
    def lost(self) -> tuple[Loss, ...]:
        """The records so far that are no documents."""
        return for_people(self._tally.found)

    def feed(self, documents: Iterable[Block], listener: Listener) -> None:
        """Count all blocks. Raises the first error of any thread, `InputError` where there are none."""
        items = replaced = skipped = 0
        waiting: deque[Future[int]] = deque()
        with ThreadPoolExecutor(self._threads, "count") as pool:
            try:
                for block in documents:
                    replaced, skipped = replaced + block.replaced, skipped + block.skipped
                    items += block.rows
                    for lost in block.lost:
                        self._tally.add(lost.kind, lost.count, (f"item {number}" for number in lost.places))
                    self._examples["invalid_offsets"] += [
                        (int(text.split()[1].rstrip(",")), text) for text in block.examples
                    ]
                    waiting.append(pool.submit(self._feed, block))
                    del block
                    if len(waiting) > self._threads:
                        listener(Advanced(count.STAGE, waiting.popleft().result()))
                while waiting:
                    listener(Advanced(count.STAGE, waiting.popleft().result()))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        if items == 0:
            raise InputError(
                "the iterator gave no documents: it is empty, or was read to its end before; give a list, or begin the "
                "iterator anew"
            )
        self._statistics.append(
            ChunkStatistics(replacements=replaced, invalid_bytes=3 * replaced, documents_skipped=skipped)
        )

    def _feed(self, block: Block) -> int:
        counter = self._idle.get()
        try:
            counter.feed(block)
            if counter.counter.memory_bytes() > self._counter_bytes:
                self._write(counter)
        finally:
            self._idle.put(counter)
        return int(block.offsets[block.rows] - block.offsets[0])

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
            for kind in PLACED[key]:
                self._tally.add(kind, getattr(statistics, kind), (place for _, place in sorted(places)))
        return self._parts, replace(statistics, losses=self._tally.found)
