"""What POSIX systems have and Windows has not, each with its second way.

`BPE_PIPELINE_PORTABLE=1` takes the second ways anywhere, except for locks: those of Windows exist only there.
"""

import contextlib
import functools
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

PORTABLE = sys.platform == "win32" or os.environ.get("BPE_PIPELINE_PORTABLE") == "1"
KILL: signal.Signals = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows SIGTERM ends a process at once
Value = TypeVar("Value")
is_command = False  # whether nothing runs in this process but the command; `__main__` sets it
GARBAGE_THRESHOLDS = gc.get_threshold()  # Python's own, which `__main__` changes


def process_lock() -> threading.Lock:
    """Return a lock that is free in a child of a fork, where the thread that held it does not exist."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


class cached_property(functools.cached_property[Value]):  # noqa: N801 - Python's name
    """Python's, without the lock that 3.11 holds while it computes: a child forked meanwhile would wait for it."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        super().__init__(compute)
        self.lock: Any = contextlib.nullcontext()


_reading = process_lock()


def lock(descriptor: int) -> None:
    """Lock an open file for this process, until it is closed; OSError at once if another process holds it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def read_at(descriptor: int, start: int, size: int) -> bytes:
    """Return up to `size` bytes from a position of an open file; threads may share it."""
    if not PORTABLE:
        return os.pread(descriptor, size, start)
    with _reading:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, start, os.SEEK_SET)
            return os.read(descriptor, size)
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


def flush(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on disk. Windows flushes names itself."""
    if PORTABLE and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if PORTABLE else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def most_open_files() -> int | None:
    """Return how many files this process may have open; None without a limit that the system reports."""
    if sys.platform == "win32":
        return 512  # of the C runtime
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if allowed == resource.RLIM_INFINITY else int(allowed)


@contextlib.contextmanager
def limited_growth(more_bytes: int | None) -> Iterator[None]:
    """Let this process map at most that many bytes more during the block, on Linux; otherwise it gets a MemoryError.

    The limit holds for every thread, so it is for workers. None: no limit. It takes 10 microseconds.
    """
    if more_bytes is None or not sys.platform.startswith("linux"):
        yield
        return
    from resource import RLIM_INFINITY, RLIMIT_AS, getpagesize, getrlimit, setrlimit

    soft, hard = getrlimit(RLIMIT_AS)
    with open("/proc/self/statm", "rb", buffering=0) as pages:  # noqa: PTH123 - quicker
        wanted = int(pages.read().split(None, 1)[0]) * getpagesize() + more_bytes
    setrlimit(RLIMIT_AS, (wanted if soft == RLIM_INFINITY else min(soft, wanted), hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_AS, (soft, hard))
