"""Standard input as a corpus file: `-` among the inputs is copied into the run directory and read from there.

A corpus is read in pieces, by several processes, and again when a run is resumed; a pipe can be read once. The copy is
named by a digest of its content, so the same content again is the same run, and it appears whole or not at all.
"""

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

from pipeline.atomic import make_directory
from pipeline.config import Options
from pipeline.errors import InputError, RunDirectoryError, UsageError
from pipeline.run_directory import STANDARD_INPUT

NAME = "-"
_BLOCK_BYTES = 1 << 20


def with_standard_input(directory: Path, options: Options) -> Options:
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


def _copied(directory: Path) -> Path:
    if sys.stdin is None:
        raise InputError("standard input is closed: give it something to read, or name files")
    home = directory.absolute() / STANDARD_INPUT
    partial = directory / f".{STANDARD_INPUT}.{os.getpid()}.partial"
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
            partial.replace(path)
            _flush(home)
        return path
    except OSError as error:
        raise RunDirectoryError(
            f"standard input cannot be kept in {directory}: {error.strerror or error}; free the place or choose "
            "another --output"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def _flush(directory: Path) -> None:
    """Put the names in a directory on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read() -> bytes:
    try:
        return sys.stdin.buffer.read(_BLOCK_BYTES)
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror or error}; name files instead") from None
