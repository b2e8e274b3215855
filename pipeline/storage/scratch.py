"""Temporary local files, named for their process: `bpe-pipeline-NAMESPACE-PID-...`, `.NAME.NAMESPACE-PID.partial`.

A later run removes those of dead processes, and so does the next process of the same machine that makes one: nothing
else cleans the nodes of a cluster, or directories without a manifest. The namespace is a digest of this machine's host
name, boot and container, so other people's files have no such names.
"""

import contextlib
import functools
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from pipeline import _core

_PREFIX = "bpe-pipeline-"
PARTIAL = ".partial"  # ends the name of a file that is being written
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

    with contextlib.suppress(OSError):
        for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{_host()}*-*"):
            if _is_left("-".join(directory.name.removeprefix(_PREFIX).split("-")[:2]), directory):
                shutil.rmtree(directory, ignore_errors=True)


@functools.cache
def sweep_partials(directory: Path) -> None:
    """Remove what dead processes left of whole files in a directory, as `sweep_scratch` does; once a process."""
    with contextlib.suppress(OSError):
        for partial in directory.glob(f".*.{_host()}*-*{PARTIAL}"):
            mark = partial.name.removesuffix(PARTIAL).rpartition(".")[2]
            if partial.is_file() and not partial.is_symlink() and _is_left(mark, partial):
                partial.unlink()


def _is_left(mark: str, path: Path) -> bool:
    """Whether the process with this mark is dead: of this namespace, or of this host and from before its boot."""
    import psutil

    namespace, _, process = mark.rpartition("-")
    if namespace == process_namespace():
        return process.isdecimal() and process.isascii() and not is_alive(int(process))
    return path.stat().st_mtime < psutil.boot_time()


_sweep_once = functools.cache(sweep_scratch)
