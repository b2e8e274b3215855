"""What this process shares with its forks, its limits, and flushing to disk."""

import contextlib
import errno
import functools
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")
_DISK = "free disk space, also in TMPDIR and /dev/shm, or name others"
_FILES = "raise the limit of open files (ulimit -n), or use fewer --workers"
_WRITABLE = "make what is written to writable: --output, TMPDIR, /dev/shm"
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _DISK),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), _FILES),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _WRITABLE),
    errno.EAGAIN: "raise the limit of processes (ulimit -u), or use fewer --workers",
    errno.ENOSYS: "run it on a system that has this, or mount /dev/shm",
    errno.EIO: "check the disk, and run the same command again",
}
_NOT_FLUSHED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}  # errors of file systems without such a request


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
    """Wait until a file, or the names in a directory, are on disk, on a file system (not all FUSE) that can do so."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_FLUSHED:
            raise
    finally:
        os.close(descriptor)


def most_open_files() -> int | None:
    """Return how many files this process may have open; None without a limit."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if allowed == resource.RLIM_INFINITY else allowed


def undecodable(name: str) -> str:
    """Return what to do about a name that the locale cannot write, or that has bytes which it, or no one, can read."""
    try:
        name.encode()
    except UnicodeError:
        try:
            os.fsencode(name).decode()
        except UnicodeError:
            return "is not valid UTF-8: rename it"
    return f"has letters that this locale ({sys.getfilesystemencoding()}) does not have: set LC_ALL=C.UTF-8"


def maps_limited() -> bool:
    """Whether what a process maps has a limit: libraries say in many ways that they met it, or abort."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def memory_is_short() -> str:
    """Return the reason and the remedy where the system refuses memory: perhaps a limit of this process."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    of_process = f": each process may map {limit >> 20:,} MiB (ulimit -v)" if maps_limited() else ""
    raise_it = "free some" if not of_process else "raise that limit"
    return f"memory is short{of_process}; {raise_it}, or give a smaller --memory-limit, or fewer --workers"


def refusal_of(error: OSError) -> str:
    """Return what the system refuses, and the remedy; empty for what may be a defect."""
    remedy = _REMEDIES.get(error.errno or 0, "")
    where = f" {error.filename}" if error.filename else ""
    if str(error.filename).startswith("/proc/"):
        remedy = "mount /proc"
    if error.errno == errno.ENOMEM:
        return memory_is_short()
    return f"the system refuses{where}: {error.strerror}; {remedy}" if remedy else ""


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
