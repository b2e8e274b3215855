"""Temporary local files and directories, named for their process: `ANYTHING.NAMESPACE-PID.partial`.

A later run removes those of dead processes, and so does the next process of the same machine that makes one: nothing
else cleans the nodes of a cluster, or directories without a manifest. The namespace is a digest of this machine's host
name, boot and container, so other people's files have no such names.
"""

import contextlib
import functools
import os
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path

from bpe_pipeline import _core

PARTIAL = ".partial"  # ends the name of what is being written
_MARK = re.compile(r"\.([0-9a-f]{16}-[0-9]+)(?=\.)")
_DAY_S = 86_400.0
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


def is_of_another(mark: str) -> bool:
    """Return whether a mark is that of another process that may be alive."""
    namespace, _, process = mark.rpartition("-")
    if namespace != process_namespace() or not (process.isdecimal() and process.isascii()):
        return True
    return int(process) != os.getpid() and is_alive(int(process))


def is_alive(process: int, started_s: object = None) -> bool:
    """Return whether a process of this namespace runs, as the one that started at `started_s`; a zombie does not."""
    import psutil

    try:
        running = psutil.Process(process)
        if isinstance(started_s, float) and abs(running.create_time() - started_s) > _CLOCK_S:
            return False  # the id was used again
        return bool(running.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error as error:
        return not isinstance(error, psutil.NoSuchProcess)


def may_be_written(path: Path) -> bool:
    """Return whether the process for which a temporary file is named may write it: one elsewhere may for a day."""
    mark = _MARK.search(path.name)
    if mark is None or not is_of_another(mark[1]):
        return False
    if mark[1].startswith(process_namespace()):
        return True
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime < _DAY_S
    return False


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Make a directory for temporary files (under TMPDIR) that is removed when the block ends."""
    import tempfile

    sweep_once()
    ending = f".{own_mark()}{PARTIAL}"
    with tempfile.TemporaryDirectory(ending, "bpe-pipeline-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def sweep(directory: Path | None = None) -> None:
    """Remove what dead processes of this namespace left in a directory, and those of this host from before its boot.

    directory: None for the one of scratch directories.
    """
    import shutil
    import tempfile

    with contextlib.suppress(OSError):
        for left in (directory or Path(tempfile.gettempdir())).glob(f"*.{_host()}*-*{PARTIAL}"):
            if not left.is_symlink() and _is_left(left):
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()


sweep_once = functools.cache(sweep)


def _is_left(path: Path) -> bool:
    """Return whether the process that names a path is dead: of this namespace, or of before this host's boot."""
    import psutil

    namespace, _, process = path.name.removesuffix(PARTIAL).rpartition(".")[2].rpartition("-")
    if namespace == process_namespace():
        return process.isdecimal() and process.isascii() and not is_alive(int(process))
    return path.stat().st_mtime < psutil.boot_time()
