"""Blocks of ids: what every source makes. Threads of this process make those of many sources in turn; processes and
nodes write those of a chunk to a chunk file, which stays until all shards are written.

The blocks of the next source are taken as they are made; those of later sources wait in memory, and a thread that is
too far ahead waits too.

A chunk file is blocks, each of the ends of documents in the chunk (8 bytes) and ids (2 or 4 bytes); and a footer in
JSON with what the file depends on, and the sizes and checksums of these. All numbers are little-endian. A file is whole
or absent, and may exceed memory: each block is checked when it is read. Parquet has no numbers of two bytes, so its
files were twice as large and took six times as long to write.
"""

import json
import logging
import struct
import traceback
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from threading import Condition
from typing import IO, Any, NamedTuple, TypeVar

from bpe_pipeline import _core
from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.executors import MAX_ATTEMPTS, failed_too_often, ignore
from bpe_pipeline.executors.worker import is_final, reporting_to
from bpe_pipeline.run.stored import stored
from bpe_pipeline.shards.formats import ID_CODES
from bpe_pipeline.storage import Location, OpenFile, open_file

_log = logging.getLogger(__name__)
_END_BYTES = 8
_TAIL = struct.Struct("<QQ16s")  # of the footer: its checksum, its length in bytes, the mark
_MARK = b"bpe-pipeline/ids"
Task = TypeVar("Task")
Sink = Callable[[memoryview, memoryview], object]  # takes ids, and the ends of documents among all ids of the source


class IdBlock(NamedTuple):
    """Ids that follow one another in a source, and the ends of documents among all ids of that source, uint64.

    A source is a chunk of the corpus, or a bucket whose documents were sorted.
    """

    ids: memoryview
    ends: memoryview

    @property
    def nbytes(self) -> int:
        """Memory that the block takes."""
        return self.ids.nbytes + self.ends.nbytes


NO_ENDS = memoryview(array("Q"))
SourceItem = IdBlock | ChunkStatistics
"""The next block of a source or, at its end, what was read in it."""


class SourceResumer:
    """Drop the first `ids` ids and `ends` ends of a source, which an interrupted writer or attempt has passed on.

    The sink gets what follows them; both numbers go on to count all that were passed on.
    """

    def __init__(self, sink: Callable[[IdBlock], object], ids: int = 0, ends: int = 0) -> None:
        self._sink, self._without_ids, self._without_ends = sink, ids, ends
        self.ids, self.ends = ids, ends

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """Take the next block of the source."""
        known_ids, known_ends = min(self._without_ids, len(ids)), min(self._without_ends, len(ends))
        self._without_ids -= known_ids
        self._without_ends -= known_ends
        ids, ends = ids[known_ids:], ends[known_ends:]
        if len(ids) or len(ends):
            self._sink(IdBlock(ids, ends))
            self.ids += len(ids)
            self.ends += len(ends)


class _Turns:
    """What threads have made and no one took yet. waiting_bytes: for blocks that wait for their turn."""

    def __init__(self, first: int, waiting_bytes: int) -> None:
        self._changed = Condition()
        self._made: dict[int, deque[SourceItem | BaseException]] = {}
        self._next, self._waiting_bytes, self._progress = first, waiting_bytes, 0
        self._given_up = False

    def put(self, source: int, made: SourceItem | BaseException) -> None:
        """Add what follows in a source, when the budget allows it; `CancelledError` when no one takes anything more."""
        size = _bytes_of(made)

        def may_wait() -> bool:
            is_next = source == self._next and not self._made.get(source)
            return self._given_up or is_next or size <= self._waiting_bytes

        with self._changed:
            self._changed.wait_for(may_wait)
            if self._given_up:
                raise CancelledError
            self._made.setdefault(source, deque()).append(made)
            self._waiting_bytes -= size
            self._changed.notify_all()

    def report(self, amount: int) -> None:
        """Add to the progress, which `take` passes on."""
        with self._changed:
            self._progress += amount
            self._changed.notify_all()

    def take(self, advance: Callable[[int], object]) -> SourceItem | None:
        """Return what comes next; None if there is only progress. Raises the error of a thread in its turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._made.get(self._next) or self._progress)
            progress, self._progress = self._progress, 0
            waiting = self._made.get(self._next)
            made = waiting.popleft() if waiting else None
            self._waiting_bytes += _bytes_of(made)
            if isinstance(made, ChunkStatistics):
                del self._made[self._next]
                self._next += 1
            self._changed.notify_all()
        advance(progress)
        if isinstance(made, BaseException):
            raise made
        return made

    def give_up(self) -> None:
        """Let each thread end with what it is making."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()


def _bytes_of(made: object) -> int:
    return made.nbytes if isinstance(made, IdBlock) else 0


def blocks_in_turn(
    make: Callable[[Task, Sink], ChunkStatistics],
    task_of: Callable[[int], Task],
    sources: range,
    threads: int,
    waiting_bytes: int,
    advance: Callable[[int], object] = ignore,
) -> Generator[SourceItem, None, None]:
    """Yield the blocks of each source, and at its end what was read; raises as `make` does.

    make: passes the blocks of a task to its sink, again the same ones; task_of: returns the task of a source.
    waiting_bytes: for blocks that wait for their turn. advance: receives what `make` reports.
    """
    turns = _Turns(sources.start, waiting_bytes)

    def make_all(source: int) -> None:
        task, put = task_of(source), partial(turns.put, source)
        rest, failures = SourceResumer(put), 0
        while True:
            try:
                with reporting_to(turns.report):
                    return put(make(task, rest.add))
            except Exception as error:
                if is_final(error) or isinstance(error, CancelledError):
                    raise
                _log.warning("%s failed: %s", task, traceback.format_exc().strip())
                failures += 1
                if failures == MAX_ATTEMPTS:
                    raise failed_too_often(task, f"{type(error).__name__}: {error}") from None
            rest = SourceResumer(put, rest.ids, rest.ends)

    def make_or_fail(source: int) -> None:
        with suppress(CancelledError):
            try:
                make_all(source)
            except CancelledError:
                raise
            except BaseException as error:
                turns.put(source, error)

    pool = ThreadPoolExecutor(threads, thread_name_prefix="encode")
    try:
        for source in sources:
            pool.submit(make_or_fail, source)
        left = len(sources)
        while left:
            made = turns.take(advance)
            left -= isinstance(made, ChunkStatistics)
            if made is not None:
                yield made
    finally:
        turns.give_up()
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class EncodedChunk:
    """What a chunk file holds. documents: that end in it; about: what an extension stores of the rows that it made."""

    ids: int
    statistics: ChunkStatistics
    documents: int
    about: dict[str, Any] = field(default_factory=dict)


class IdsWriter:
    """Writes a chunk file to an open file."""

    def __init__(self, file: IO[bytes], id_bytes: int) -> None:
        self._file, self._id_bytes = file, id_bytes
        self._columns = list[tuple[int, int]]()  # bytes and checksum

    def add(self, ids: memoryview, ends: memoryview) -> None:
        """Write a block."""
        for column in (ends.cast("B"), ids.cast("B")):
            self._columns.append((len(column), _core.hash64(column)))
            self._file.write(column)

    def finish(self, fingerprint: str, statistics: ChunkStatistics, **more: Any) -> EncodedChunk:
        """Write the footer, the end of the file. more: of `EncodedChunk`."""
        ends, ids = (sum(size for size, _ in self._columns[first::2]) for first in (0, 1))
        chunk = EncodedChunk(ids // self._id_bytes, statistics, ends // _END_BYTES, **more)
        written = {"fingerprint": fingerprint, "id_bytes": self._id_bytes, "columns": self._columns}
        footer = json.dumps({**written, **asdict(chunk)}).encode()
        self._file.write(footer + _TAIL.pack(_core.hash64(footer), len(footer), _MARK))
        return chunk


class ChunkFile(NamedTuple):
    """Where a chunk file is, and the fingerprint of what it depends on."""

    path: Location
    fingerprint: str

    def holds(self) -> EncodedChunk:
        """Return what the file holds; `RunDirectoryError` if it is missing, not whole or of something else."""
        try:
            with open_file(self.path) as file:
                return stored(EncodedChunk, self._footer(file))
        except FileNotFoundError:
            raise RunDirectoryError(f"{self.path} is missing; run the same command again") from None

    def blocks(self) -> Iterator[IdBlock]:
        """Yield all blocks, with ends among all ids of the chunk; `RunDirectoryError` if they are damaged."""
        with open_file(self.path) as file:
            footer, at = self._footer(file), 0
            columns = iter(footer["columns"])
            for (ends_bytes, ends_hash), (ids_bytes, ids_hash) in zip(columns, columns, strict=True):
                ends = memoryview(self._checked(file, at, ends_bytes, ends_hash)).cast("Q")
                ids = memoryview(self._checked(file, at + ends_bytes, ids_bytes, ids_hash))
                at += ends_bytes + ids_bytes
                yield IdBlock(ids.cast(ID_CODES[footer["id_bytes"]]), ends)

    def _footer(self, file: OpenFile) -> dict[str, Any]:
        stop = max(file.seek(0, 2) - _TAIL.size, 0)
        checksum, length, mark = _TAIL.unpack(file.read_at(stop, _TAIL.size).ljust(_TAIL.size))
        if mark != _MARK or length > stop:
            raise self._damaged("it is not whole")
        footer: dict[str, Any] = json.loads(self._checked(file, stop - length, length, checksum))
        if self.fingerprint != footer["fingerprint"]:
            raise self._damaged("it is of another chunk")
        return footer

    def _checked(self, file: OpenFile, start: int, size: int, checksum: int) -> bytes:
        data = file.read_at(start, size)
        if len(data) != size or _core.hash64(data) != checksum:
            raise self._damaged("a block of it is not as it was written")
        return data

    def _damaged(self, reason: str) -> RunDirectoryError:
        return RunDirectoryError(f"{self.path} is damaged ({reason}); remove that file and run the same command again")
