"""What this process shares with its forks, its limits, and flushing to disk."""

import contextlib
import functools
import gc
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")
is_command = False  # whether nothing runs in this process but the command; `__main__` sets it
GARBAGE_THRESHOLDS = gc.get_threshold()  # Python's own, which `__main__` changes


def process_lock() -> threading.Lock:
    """Return a lock that is free in a child of a fork, where the thread that held it does not exist."""
    lock = threading.Lock()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


class cached_property(functools.cached_property[Value]):  # noqa: N801 - Python's name
    """Python's, without the lock that 3.11 holds while it computes: a child forked meanwhile would wait for it."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        super().__init__(compute)
        self.lock: Any = contextlib.nullcontext()


def flush(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def most_open_files() -> int | None:
    """Return how many files this process may have open; None without a limit."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if allowed == resource.RLIM_INFINITY else allowed


@contextlib.contextmanager
def limited_growth(more_bytes: int | None) -> Iterator[None]:
    """Let this process map at most that many bytes more during the block, on Linux; otherwise it gets a MemoryError.

    The limit holds for every thread, so it is for workers. None: no limit. It takes 10 microseconds.
    """
    if more_bytes is None or not sys.platform.startswith("linux"):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", "rb", buffering=0) as pages:  # noqa: PTH123 - quicker
        wanted = int(pages.read().split(None, 1)[0]) * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
