"""A limit on what a process may map, where nothing else bounds its memory. Workers import it, so it imports little."""

import contextlib
import sys
from collections.abc import Iterator


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
