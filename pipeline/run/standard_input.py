"""Standard input as a corpus file: `-` among the inputs is copied into the run directory and read from there.

A corpus is read in pieces, by several processes, and again when a run is resumed; a pipe can be read once. The copy is
named by a digest of its content, so the same content again is the same run, and it appears whole or not at all. Where
the run is refused then, the copy goes again; also where its own text is what a worker refuses, for then no run can go
on from it.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from pipeline.base.errors import InputError, InvalidTextError, RunDirectoryError, UsageError
from pipeline.run.directory import STANDARD_INPUT
from pipeline.run.options import Options
from pipeline.storage import Location, named, open_file, remove
from pipeline.storage.atomic import make_directory, parts_beside, put
from pipeline.storage.scratch import own_mark

NAME = "-"
_BLOCK_BYTES = 1 << 20


@contextlib.contextmanager
def with_standard_input(directory: Location, options: Options) -> Iterator[Options]:
    """The options with the copy's path in place of `-`; reads standard input to its end where it is asked for.

    A copy that was not there before is removed where the block fails. Raises `InputError` where there is nothing on
    standard input, `UsageError` for a dry run, which leaves no trace.
    """
    if options.inputs is None or NAME not in options.inputs:
        yield options
        return
    if options.dry_run:
        raise UsageError(
            "--dry-run cannot read standard input, which would be used up: save it to a file and name that"
        )
    path, is_new = _copied(directory)
    try:
        yield replace(options, inputs=tuple(str(path) if name == NAME else name for name in options.inputs))
    except BaseException:
        if is_new:
            _forget(path)
        raise


def _copied(directory: Location) -> tuple[Location, bool]:
    if sys.stdin is None:
        raise InputError("standard input is closed: give it something to read, or name files")
    home = (directory.absolute() if isinstance(directory, Path) else directory) / STANDARD_INPUT
    with parts_beside(directory / STANDARD_INPUT) as beside:
        return _copied_by(beside.with_name(f".{STANDARD_INPUT}.{own_mark()}.partial"), home)


def _copied_by(partial: Path, home: Location) -> tuple[Location, bool]:
    """The copy in its place, and whether it is new: first written to a partial file, then named by its content."""
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
        name = digest.hexdigest()[:32]
        path = home / f"input-{name}"
        if _digest(path) == name:
            return path, False
        make_directory(home)
        put(partial, path)
        return path, True
    except OSError as error:
        raise RunDirectoryError(
            f"standard input cannot be kept in {home}: {error.strerror or error}; free the place or choose "
            "another --output"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def _digest(path: Location) -> str:
    """By what a copy of this content is named; nothing where there is none."""
    digest = hashlib.sha256()
    try:
        with open_file(path) as copy:
            while block := copy.read(_BLOCK_BYTES):
                digest.update(block)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()[:32]


@contextlib.contextmanager
def refused_goes(directory: Location, paths: Iterable[str]) -> Iterator[None]:
    """Where the block refuses the text of one of these paths, and that is a copy in the directory, it is removed."""
    try:
        yield
    except InvalidTextError as error:
        home = str((directory.absolute() if isinstance(directory, Path) else directory) / STANDARD_INPUT)
        copy = next((path for path in paths if path.startswith(f"{home}/") and f"{path}," in str(error)), None)
        if copy is None:
            raise
        _forget(named(copy))
        told = str(error).replace(copy, "standard input")
        raise InvalidTextError(f"{told} (the copy of it was removed)") from None


def _forget(path: Location) -> None:
    with contextlib.suppress(OSError):
        remove(path)
        if isinstance(path, Path):
            path.parent.rmdir()  # unless it holds others


def _read() -> bytes:
    try:
        return sys.stdin.buffer.read(_BLOCK_BYTES)
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror or error}; name files instead") from None
