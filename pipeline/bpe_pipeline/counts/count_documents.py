"""Count documents that the caller's process has, by threads, in counters that are written in parts as they grow."""

import queue
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

from bpe_pipeline import _core
from bpe_pipeline.base.errors import InputError, InvalidTextError, PatternTimeoutError, TrainingError
from bpe_pipeline.corpus.documents import DocumentJudge, Records
from bpe_pipeline.corpus.skipped_or_altered import Tally, in_words
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.combine_worker import give_back_memory
from bpe_pipeline.counts.count import STAGE, warn_of_special_text
from bpe_pipeline.counts.counter_file import PartPath, Sum, Term, counter_partitions, write_counter
from bpe_pipeline.counts.feeding import RegexCutter
from bpe_pipeline.counts.looks_special import LooksSpecial
from bpe_pipeline.run.ids import ending_bytes
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.open_run import special_bytes
from bpe_pipeline.run.options import CountOptions
from bpe_pipeline.run.patterns import pattern_of, slowness
from bpe_pipeline.run.runner import Advance, Runner
from bpe_pipeline.run.stored import stored
from bpe_pipeline.storage import Location

_LEAST_COUNTER_BYTES = 1 << 20
_MEMORY_SHARE = 4  # all counters together may take one in this many bytes of the budget
CounterAndCutter: TypeAlias = tuple[_core.ChunkCounter, Any]


def count_documents(
    runner: Runner, run: Run, part_path: PartPath, documents: Iterable[Records], options: CountOptions
) -> Sum:
    """Count all blocks of documents; warns of those that are skipped or altered."""
    runner.warn(slowness(pattern_of(options)))
    with runner.reporting(STAGE, 0, "bytes") as advance:
        counting = _Counting(runner, run, part_path, options)
        counting.feed(documents, advance)
        total = counting.finish()
        for skipped in in_words(total.statistics.losses):
            runner.warn(str(skipped))
        warn_of_special_text(runner, total.statistics, options)
        del counting
        give_back_memory()  # a worker combines and merges in parallel with this process
    return total


class _Counting:
    """Threads that count blocks, each with a counter of its own, and what they have written so far."""

    def __init__(self, runner: Runner, run: Run, part_path: PartPath, options: CountOptions) -> None:
        self._options, self._part_path, self._counting = options, part_path, run.manifest.counting
        self._threads = runner.threads
        work_bytes = runner.reserve().bytes
        self._counter_bytes = max(_LEAST_COUNTER_BYTES, work_bytes // (_MEMORY_SHARE * self._threads))
        self._idle: queue.SimpleQueue[CounterAndCutter] = queue.SimpleQueue()
        for _ in range(self._threads):
            self._idle.put(self._new_counter())
        self._lock = threading.Lock()
        self._looks = LooksSpecial(special_bytes(self._counting))
        self._fingerprint = run.manifest.counter_fingerprint
        self._parts: list[tuple[Location, str]] = []
        self._statistics: list[ChunkStatistics] = []
        # Of each kind that counters note, the numbers of items and the locations.
        self._examples: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self._noted: Counter[str] = Counter()
        self.tally = Tally()

    def _new_counter(self) -> CounterAndCutter:
        pattern = pattern_of(self._options)
        cutter: Any = pattern.automaton or RegexCutter(pattern)
        special, judge = list(special_bytes(self._counting)), DocumentJudge.of(self._counting)
        ending = len(ending_bytes(self._counting)) if judge.needs_whole_documents else len(special)
        return _core.ChunkCounter(
            cutter,
            special[:ending],
            added_tokens=special[ending:],
            judge=judge,
            form=pattern.form,
        ), cutter

    def feed(self, documents: Iterable[Records], advance: Advance) -> None:
        """Count all blocks. Raises the first error of any thread, `InputError` if there are no documents."""
        items = 0
        waiting: deque[Future[int]] = deque()
        with ThreadPoolExecutor(self._threads, "count") as pool:
            try:
                for block in documents:
                    items += block.rows
                    self._looks.look(block.data, block.starts[0], block.starts[-1])
                    for skipped in block.skipped:
                        self.tally.add(skipped.kind, skipped.count, (f"item {at}" for at in skipped.positions))
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
                "the iterator gave no documents: it is empty, or was read to its end before; give a list, or a new "
                "iterator"
            )

    def _feed(self, block: Records) -> int:
        counter, cutter = self._idle.get()
        try:
            self._count(counter, block)
            if counter.memory_bytes() > self._counter_bytes:
                self._write(counter, cutter)
                counter, cutter = self._new_counter()
        finally:
            self._idle.put((counter, cutter))
        return int(block.starts[-1] - block.starts[0])

    def _count(self, counter: _core.ChunkCounter, block: Records) -> None:
        before = counter.statistics()
        try:
            counter.feed_documents(block.offsets, block.data, block.offset_bytes)
        except UnicodeError as error:
            _, location = _item(block, error.args[1] - before["bytes"])
            raise InvalidTextError(
                f"{location} is invalid UTF-8 or a lone surrogate; fix it, or choose errors='replace' or errors='skip'"
            ) from None
        except ValueError as error:
            raise TrainingError(f"items {block.position(0)} and after cannot be counted: {error}") from None
        except PatternTimeoutError as error:  # of the document that was fed last
            number, _ = _item(block, counter.statistics()["bytes"] - before["bytes"] - 1)
            raise PatternTimeoutError(f"item {number}: {error}") from None
        for kind, (_, offsets) in counter.statistics()["noted"].items():
            _, known = before["noted"][kind]
            self._examples[kind] += [_item(block, offset - before["bytes"]) for offset in offsets[len(known) :]]

    def _write(self, counter: _core.ChunkCounter, cutter: Any) -> None:
        with self._lock:
            path = self._part_path(len(self._parts))
            self._parts.append((path, self._fingerprint))
        write_counter(path, counter_partitions(counter), fingerprint=self._fingerprint)
        characters = cutter.concerned() if isinstance(cutter, RegexCutter) else ""
        statistics = counter.statistics()
        with self._lock:
            self._noted.update({kind: count for kind, (count, _) in statistics["noted"].items()})
            self._statistics.append(replace(stored(ChunkStatistics, statistics), concerned_characters=characters))

    def finish(self) -> Sum:
        """Write the counters that are left; returns the parts and the statistics of all of them together."""
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(lambda _: self._write(*self._idle.get()), range(self._threads)))
        statistics = sum(self._statistics, ChunkStatistics())
        for kind, count in self._noted.items():
            self.tally.add(kind, count, (location for _, location in sorted(self._examples[kind])))
        return Sum([Term(self._parts)], replace(statistics, losses=self.tally.kinds, **self._looks.statistics()))


def _item(block: Records, offset: int) -> tuple[int, str]:
    """Return the number of the item that holds a byte of a block, and the byte's location for messages."""
    row = block.row_at(offset)
    number = block.position(row)
    return number, f"item {number}, byte {offset + block.starts[0] - block.starts[row]}"
