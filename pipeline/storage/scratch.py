"""Temporary local files for what will be uploaded: each process's own, and found again when it was killed.

Their names say whose they are (`bpe-pipeline-PLACE-PID-...`), so that a later run removes those of dead processes.
"""

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path


@functools.cache
def place() -> str:
    """What process ids are counted in: a name of this host, this start of it, and this container."""
    import hashlib
    import platform

    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 - no path, a name
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


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

    with tempfile.TemporaryDirectory(prefix=f"{_prefix()}{os.getpid()}-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def sweep_scratch() -> None:
    """Remove what processes of this place left behind when they were killed."""
    import shutil
    import tempfile

    prefix = _prefix()
    with contextlib.suppress(OSError):
        for directory in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            process = directory.name.removeprefix(prefix).partition("-")[0]
            if process.isdigit() and not is_alive(int(process)):
                shutil.rmtree(directory, ignore_errors=True)


def _prefix() -> str:
    return f"bpe-pipeline-{place()}-"
