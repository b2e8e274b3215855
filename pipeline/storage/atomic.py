"""Files that appear whole or not at all: written beside, flushed to disk, renamed.

In a store of objects a completed upload takes the place of the rename: what is written lies in a temporary local file
until then.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pipeline.base.errors import RunDirectoryError
from pipeline.storage import Location, Remote
from pipeline.storage.scratch import own_mark, scratch_directory


@contextlib.contextmanager
def whole_file(where: Location, remedy: str = "free the place or choose another --output") -> Iterator[Path]:
    """Give a local path to write to; when the block ends well, what is there takes the place of `where`.

    The output is the completion mark: after a stop at any moment `where` is absent, or complete and on the disk.
    Raises `RunDirectoryError` naming the file where the disk is full or read-only, or a store refuses. remedy: what
    the message then advises.
    """
    try:
        with _uploaded(where) if isinstance(where, Remote) else _renamed(where) as partial:
            yield partial
    except OSError as error:
        reason = error.strerror or error
        raise RunDirectoryError(f"{where} cannot be written: {reason}; {remedy}") from None


@contextlib.contextmanager
def _renamed(path: Path) -> Iterator[Path]:
    partial = path.with_name(f".{path.name}.{own_mark()}.partial")
    try:
        yield partial
        _flush(partial)
        partial.replace(path)
        _flush(path.parent)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


@contextlib.contextmanager
def _uploaded(where: Remote) -> Iterator[Path]:
    with scratch_directory() as directory:
        yield directory / "file"
        where.upload(directory / "file")


@contextlib.contextmanager
def parts_beside(where: Location) -> Iterator[Path]:
    """Give a local path whose neighbours `.NAME.*` may hold parts of what `where` will be, for as long as the block.

    Beside a local file these are its neighbours, which a later run sweeps; a remote one has them in a temporary
    directory.
    """
    if isinstance(where, Path):
        yield where
    else:
        with scratch_directory() as directory:
            yield directory / where.name


@contextlib.contextmanager
def appendable(where: Location) -> Iterator[Path]:
    """Give a local path to append to: the file itself, or a copy of a remote one that is uploaded when the block ends,
    however it ends.

    Raises `RunDirectoryError` where a store refuses, unless the block raised something else.
    """
    if isinstance(where, Path):
        yield where
        return
    with scratch_directory() as directory:
        path = directory / where.name
        try:
            with contextlib.suppress(FileNotFoundError):
                path.write_bytes(where.read_bytes())
        except OSError as error:
            raise RunDirectoryError(
                f"{where} cannot be read: {error.strerror or error}; mend that, or remove it"
            ) from None
        try:
            yield path
        except BaseException:
            with contextlib.suppress(OSError):
                where.upload(path)
            raise
        try:
            where.upload(path)
        except OSError as error:
            raise RunDirectoryError(
                f"{where} cannot be written: {error.strerror or error}; run the same command again"
            ) from None


def put(complete: Path, where: Location) -> None:
    """Put a complete local file, which is on the disk, in the place of `where`: at once, or by an upload.

    A local one lies in the file system of `where`, and is gone from its old place. Raises OSError.
    """
    if isinstance(where, Remote):
        where.upload(complete)
        return
    complete.replace(where)
    _flush(where.parent)


def write_whole(where: Location, data: bytes | str) -> None:
    """Write a small file as `whole_file` does."""
    with whole_file(where) as partial:
        partial.write_bytes(data.encode() if isinstance(data, str) else data)


def make_directory(where: Location) -> None:
    """Make a directory and its parents, or raise `RunDirectoryError` in one line."""
    try:
        if isinstance(where, Remote):
            where.make_directory()
        else:
            where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirectoryError(
            f"directory {where} cannot be made: {error.strerror or error}; choose another --output"
        ) from None


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
