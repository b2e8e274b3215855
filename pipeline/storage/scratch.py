"""Temporary local files for what will be uploaded: each process's own, and found again when it was killed.

Their names say whose they are (`bpe-pipeline-PLACE-PID-...`), so that those of dead processes are removed: by a later
run, and by the next process of the same machine that makes one, as nobody else comes to the nodes of a cluster.
"""

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

from pipeline import _core

_PREFIX = "bpe-pipeline-"


@functools.cache
def place() -> str:
    """What process ids are counted in: a name of this host, this start of it, and this container."""
    parts = [_start()]
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 - no path, a name
    return f"{_host()}{_short(*parts)}"


def _host() -> str:
    return _short(os.uname().nodename)


def _start() -> str:
    """This start of the host; a process of an earlier one is dead."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    return ""


def _short(*names: str) -> str:
    return f"{_core.hash64(chr(10).join(names).encode()):016x}"[:8]


def own_mark() -> str:
    """What stands in the names of files that this process alone writes, beside what they will be.

    On a cluster several machines write into one directory, where a process id alone may be that of two.
    """
    return f"{place()}-{os.getpid()}"


def is_alive(process: int) -> bool:
    """Whether a process of this id is at work in this place.

    One that has ended is not, although its id stands there until its parent looks: an orphan's is the first process of
    the system or container, which may look late, or never.
    """
    import psutil

    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory of our own in the system's place for temporary files (TMPDIR), removed at the end."""
    import tempfile

    _sweep_once()
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{own_mark()}-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def sweep_scratch() -> None:
    """Remove what processes of this place left behind when they were killed, and those of this host before it began."""
    import shutil
    import tempfile

    with contextlib.suppress(OSError):
        for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{_host()}*"):
            whose, _, rest = directory.name.removeprefix(_PREFIX).partition("-")
            process = rest.partition("-")[0]
            if whose == place():
                dead = process.isdigit() and not is_alive(int(process))
            else:
                dead = directory.stat().st_mtime < _started_at()
            if dead:
                shutil.rmtree(directory, ignore_errors=True)


@functools.cache
def _sweep_once() -> None:
    sweep_scratch()


@functools.cache
def _started_at() -> float:
    """When this host began, in seconds; what is older than that is nobody's."""
    import psutil

    return float(psutil.boot_time())
