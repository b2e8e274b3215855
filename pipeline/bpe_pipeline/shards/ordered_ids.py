"""The ids of chunks in the order of the corpus: threads of this process make them, with one encoder.

The ids of the next chunk are taken as they are made; those of later chunks wait in memory, and a thread that is too far
ahead waits too.
"""

import logging
import traceback
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Condition

from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.executors import MAX_ATTEMPTS, failed_too_often, ignore
from bpe_pipeline.executors.worker import is_final, reporting_to
from bpe_pipeline.run.plan import Plan
from bpe_pipeline.shards.chunk_ids import Made, Rest
from bpe_pipeline.shards.encode_worker import IdsTask, make_ids
from bpe_pipeline.shards.encoding_tasks import EncodingWorkers
from bpe_pipeline.tokenizer.model import Model

_log = logging.getLogger(__name__)


class _Turns:
    """What threads have made and nobody took yet. room_bytes: for ids that wait for their turn."""

    def __init__(self, first: int, room_bytes: int) -> None:
        self._changed = Condition()
        self._made: dict[int, deque[Made | BaseException]] = {}
        self._next, self._room_bytes, self._progress = first, room_bytes, 0
        self._given_up = False

    def put(self, chunk: int, made: Made | BaseException) -> None:
        """Add what follows in a chunk, when the budget allows it; `CancelledError` when nobody takes anything more."""
        size = _bytes_of(made)

        def may_wait() -> bool:
            is_next = chunk == self._next and not self._made.get(chunk)
            return self._given_up or is_next or size <= self._room_bytes

        with self._changed:
            self._changed.wait_for(may_wait)
            if self._given_up:
                raise CancelledError
            self._made.setdefault(chunk, deque()).append(made)
            self._room_bytes -= size
            self._changed.notify_all()

    def report(self, amount: int) -> None:
        """Add to the progress, which `take` passes on."""
        with self._changed:
            self._progress += amount
            self._changed.notify_all()

    def take(self, advance: Callable[[int], object]) -> Made | None:
        """Return what comes next; None if there is only progress. Raises the error of a thread in its turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._made.get(self._next) or self._progress)
            progress, self._progress = self._progress, 0
            waiting = self._made.get(self._next)
            made = waiting.popleft() if waiting else None
            self._room_bytes += _bytes_of(made)
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
    return sum(column.nbytes for column in made) if isinstance(made, tuple) else 0


def ids_by_threads(
    model: Model,
    task: Callable[..., IdsTask],
    plan: Plan,
    workers: EncodingWorkers,
    first: int = 0,
    advance: Callable[[int], object] = ignore,
) -> Generator[Made, None, None]:
    """Yield the ids of each chunk from the first on, and at its end what was read; `advance` receives bytes of text.

    task: returns the task of what a chunk has of its own. Raises as `make_ids` does.
    """
    threads = workers.grant.count
    encoder = model.encoder(cache_bytes=threads * workers.cache_bytes, threads=threads)
    turns = _Turns(first, threads * workers.waiting_bytes)

    def make(chunk: int) -> None:
        of_chunk = task(name=f"chunk {chunk}", spans=plan.spans(chunk), sizes=plan.sizes(chunk))
        put, rest, failures = partial(turns.put, chunk), Rest(partial(turns.put, chunk)), 0
        while True:
            try:
                with reporting_to(turns.report):
                    return put(make_ids(of_chunk, model, encoder, rest.add))
            except Exception as error:
                if is_final(error) or isinstance(error, CancelledError):
                    raise
                _log.warning("%s failed: %s", of_chunk, traceback.format_exc().strip())
                failures += 1
                if failures == MAX_ATTEMPTS:
                    raise failed_too_often(of_chunk, f"{type(error).__name__}: {error}") from None
            rest = Rest(put, rest.ids, rest.ends)

    def make_or_fail(chunk: int) -> None:
        with suppress(CancelledError):
            try:
                make(chunk)
            except CancelledError:
                raise
            except BaseException as error:
                turns.put(chunk, error)

    pool = ThreadPoolExecutor(threads, thread_name_prefix="encode")
    try:
        for chunk in range(first, len(plan.chunks)):
            pool.submit(make_or_fail, chunk)
        left = len(plan.chunks) - first
        while left:
            made = turns.take(advance)
            left -= isinstance(made, ChunkStatistics)
            if made is not None:
                yield made
    finally:
        turns.give_up()
        pool.shutdown(cancel_futures=True)
