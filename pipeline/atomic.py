"""Files that appear whole or not at all: written beside, flushed to disk, renamed."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import RunDirectoryError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; when the block ends well, it takes the place of `path`.

    The output is the completion mark: after a stop at any moment `path` is absent, or complete and on the disk.
    Raises `RunDirectoryError` naming the file where the disk is full or read-only.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        _flush(partial)
        partial.replace(path)
        _flush(path.parent)
    except OSError as error:
        reason = error.strerror or error
        raise RunDirectoryError(
            f"{path} cannot be written: {reason}; free the place or choose another --output"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def write_whole(path: Path, data: bytes | str) -> None:
    """Write a small file as `whole_file` does."""
    with whole_file(path) as partial:
        partial.write_bytes(data.encode() if isinstance(data, str) else data)


def make_directory(path: Path) -> None:
    """Make a directory and its parents, or raise `RunDirectoryError` in one line."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirectoryError(
            f"directory {path} cannot be made: {error.strerror or error}; choose another --output"
        ) from None


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
