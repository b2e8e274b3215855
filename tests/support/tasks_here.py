"""An executor whose tasks run in this process, as a worker would do them: with copies of what it gets and gives."""

import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from bpe_pipeline.base import machine
from bpe_pipeline.executors import DEFAULT_SETUP, Executor, Need, WorkerSetup, worker
from bpe_pipeline.pattern import compiled

active = False  # whether tests do in this process what can be done in it
_native = functools.lru_cache(20)(compiled.AutomatonTables.native)  # a worker makes it once, and gets many tasks


@contextmanager
def activated() -> Iterator[None]:
    """Run tasks, and commands, in this process, without what takes longer than most of them.

    Files are not forced onto the disk. Memory is that of no file: the sum of all takes 6 ms in a process this large.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bpe_pipeline.run.workers.LocalExecutor", TasksHere)
        patch.setattr("bpe_pipeline.base.system.flush", lambda _: None)
        patch.setattr("os.fsync", lambda _: None)
        patch.setattr(machine, "_process_memory", machine._unshared_memory)
        patch.setattr(compiled.AutomatonTables, "native", _native)
        patch.setattr(__name__ + ".active", True)
        yield


Handle = functools.partial[object]  # of a function, with the bytes of its task


class TasksHere(Executor):
    """Takes the place of `LocalExecutor`: hundreds of runs in the time in which processes start for ten."""

    def __init__(self, workers: Callable[[], int], setup: WorkerSetup = DEFAULT_SETUP) -> None:  # noqa: ARG002
        super().__init__()
        self._workers = functools.cache(workers)

    def __enter__(self) -> "TasksHere":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _slots(self, at_most: int, need: Need) -> int:  # noqa: ARG002
        return min(self._workers(), at_most)

    def _start(self, function: Callable[[Any], object], task: object, need: Need, *, again: bool) -> Handle:  # noqa: ARG002
        return Handle(function, pickle.dumps(task))

    def _messages(self, active: Sequence[Handle]) -> Iterator[tuple[Handle, str, Any]]:
        posted: list[tuple[str, object]] = []
        with patch.object(worker, "_post", lambda *message: posted.append(message)):
            posted.append(worker.answer(active[0].func, pickle.loads(*active[0].args)))
        yield from ((active[0], *message) for message in pickle.loads(pickle.dumps(posted)))

    def _stop(self, handle: Handle) -> None:
        pass
