"""Standard input as a corpus file: `-` among the inputs is copied into the run directory and read from there.

A corpus is read in pieces, by several processes, and again when a run is resumed; a pipe can be read once. The copy is
named by a digest of its content, so the same content again is the same run, and it appears whole or not at all.
"""

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

from pipeline.atomic import make_directory, parts_beside
from pipeline.config import Options
from pipeline.errors import InputError, RunDirectoryError, UsageError
from pipeline.run_directory import STANDARD_INPUT
from pipeline.storage import Location

NAME = "-"
_BLOCK_BYTES = 1 << 20


def with_standard_input(directory: Location, options: Options) -> Options:
    """The options with the copy's path in place of `-`; reads standard input to its end where it is asked for.

    Raises `InputError` where there is nothing on it, `UsageError` for a dry run, which leaves no trace.
    """
    if options.inputs is None or NAME not in options.inputs:
        return options
    if options.dry_run:
        raise UsageError(
            "--dry-run cannot read standard input, which would be used up: save it to a file and name that"
        )
    path = str(_copied(directory))
    return replace(options, inputs=tuple(path if name == NAME else name for name in options.inputs))


def _copied(directory: Location) -> Location:
    if sys.stdin is None:
        raise InputError("standard input is closed: give it something to read, or name files")
    home = (directory.absolute() if isinstance(directory, Path) else directory) / STANDARD_INPUT
    with parts_beside(directory / STANDARD_INPUT) as beside:
        return _copied_by(beside.with_name(f".{STANDARD_INPUT}.{os.getpid()}.partial"), home)


def _copied_by(partial: Path, home: Location) -> Location:
    """The copy in its place: first written to a partial file, then named by its content."""
    digest, size = hashlib.sha256(), 0
    try:
        with partial.open("wb") as copy:
            while block := _read():
                digest.update(block)
                size += len(block)
                copy.write(block)
            copy.flush()
            os.fsync(copy.fileno())
        if size == 0:
            raise InputError("the corpus is empty: nothing came by standard input")
        path = home / digest.hexdigest()[:32]
        if not path.exists():
            make_directory(home)
            _move(partial, path)
        return path
    except OSError as error:
        raise RunDirectoryError(
            f"standard input cannot be kept in {home}: {error.strerror or error}; free the place or choose "
            "another --output"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def _move(partial: Path, path: Location) -> None:
    """Give a complete file its name, and put that on the disk; or upload it."""
    if not isinstance(path, Path):
        path.upload(partial)
        return
    partial.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read() -> bytes:
    try:
        return sys.stdin.buffer.read(_BLOCK_BYTES)
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror or error}; name files instead") from None
