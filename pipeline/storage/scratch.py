"""Temporary local files for uploads, named for their process: `bpe-pipeline-NAMESPACE-PID-...`.

A later run removes those of dead processes, and so does the next process of the same machine that makes one: nothing
else cleans the nodes of a cluster.
"""

import contextlib
import functools
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from pipeline import _core

_PREFIX = "bpe-pipeline-"
_CLOCK_S = 5.0  # by which a host's clock may be corrected while a process runs


@functools.cache
def process_namespace() -> str:
    """Return a name for what process ids are unique in: this host, since its last boot, and this container."""
    names = ""
    with contextlib.suppress(OSError):
        names = Path("/proc/sys/kernel/random/boot_id").read_text()
        names += os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - the link names no path
    return _host() + _short(names)


def _host() -> str:
    return _short(platform.node())


def _short(name: str) -> str:
    return f"{_core.hash64(name.encode()):016x}"[:8]


def own_mark() -> str:
    """Return a mark for names of temporary files that only this process, of all machines of a cluster, writes."""
    return f"{process_namespace()}-{os.getpid()}"


def is_alive(process: int, started_s: object = None) -> bool:
    """Whether a process of this namespace runs, as the one that started at `started_s`; a zombie does not."""
    import psutil

    try:
        found = psutil.Process(process)
        if isinstance(started_s, float) and abs(found.create_time() - started_s) > _CLOCK_S:
            return False  # the id was used again
        return bool(found.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error as error:
        return not isinstance(error, psutil.NoSuchProcess)


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Make a directory for temporary files (under TMPDIR) that is removed when the block ends."""
    import tempfile

    _sweep_once()
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{own_mark()}-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def sweep_scratch() -> None:
    """Remove scratch directories of dead processes of this namespace, and those of this host from before its boot."""
    import shutil
    import tempfile

    import psutil

    with contextlib.suppress(OSError):
        for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{_host()}*-*"):
            namespace, process = directory.name.removeprefix(_PREFIX).split("-")[:2]
            if namespace == process_namespace():
                dead = process.isdecimal() and process.isascii() and not is_alive(int(process))
            else:
                dead = directory.stat().st_mtime < psutil.boot_time()
            if dead:
                shutil.rmtree(directory, ignore_errors=True)


_sweep_once = functools.cache(sweep_scratch)
