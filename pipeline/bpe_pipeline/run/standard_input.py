"""Standard input as a corpus file: `-` among the inputs is copied into the owned directory and read from there.

The copy's name is the digest of its content, by which it is identified: the same content is the same run, also after
the directory was moved. It appears whole or not at all.
It is deleted if the command is refused, or if a worker refuses its text, since then no run can resume from it.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from bpe_pipeline.base.errors import InputError, InvalidTextError, RunDirectoryError, UsageError, os_error_as
from bpe_pipeline.run.directory import COPY, STANDARD_INPUT, Directory
from bpe_pipeline.run.options import CorpusOptions, CountOptions
from bpe_pipeline.storage import Location, named, open_file, remove
from bpe_pipeline.storage.atomic import make_directory, parts_next_to, put
from bpe_pipeline.storage.scratch import own_mark

NAME = "-"
_BLOCK_BYTES = 1 << 20
Reading = TypeVar("Reading", bound=CorpusOptions)


@contextlib.contextmanager
def with_standard_input(directory: Directory, options: Reading) -> Iterator[Reading]:
    """Yield the options with the copy's path in place of `-`, after reading standard input to its end.

    A copy that was not there before is deleted if the block fails. Raises `InputError` if standard input is empty,
    `UsageError` for a dry run, which writes nothing.
    """
    if options.inputs is None or NAME not in options.inputs:
        yield options
        return
    if isinstance(options, CountOptions) and options.dry_run:
        raise UsageError(
            "--dry-run cannot read standard input, which would be used up: save it to a file and name that"
        )
    path, is_new = _copy(directory)
    try:
        yield replace(options, inputs=tuple(str(path) if name == NAME else name for name in options.inputs))
    except BaseException as error:
        if is_new:
            with contextlib.suppress(OSError):
                remove(path)
                if isinstance(path, Path):
                    path.parent.rmdir()  # unless it holds others
        if isinstance(error, InputError) and str(path) in error.args[0]:
            raise type(error)(error.args[0].replace(str(path), "standard input")) from None
        raise


def _copy(directory: Directory) -> tuple[Location, bool]:
    """Copy standard input; returns the copy and whether it is new. It is written to a partial file and then renamed."""
    if sys.stdin is None:
        raise InputError("standard input is closed: give it something to read, or name files")
    home = directory.copies
    with parts_next_to(directory / STANDARD_INPUT) as neighbour:
        partial = neighbour.with_name(f".{STANDARD_INPUT}.{own_mark()}.partial")
        digest = hashlib.sha256()
        refused = f"standard input cannot be kept in {home}", "free disk space or choose another --output"
        try:
            with os_error_as(RunDirectoryError, *refused), partial.open("wb") as copy:
                while block := _read():
                    digest.update(block)
                    copy.write(block)
                copy.flush()
                os.fsync(copy.fileno())
                if copy.tell() == 0:
                    raise InputError("the corpus is empty: standard input has no data")
            path = home / f"input-{digest.hexdigest()[:32]}"
            is_new = not _is_copy(path)
            if is_new:
                make_directory(home)
                with os_error_as(RunDirectoryError, *refused):
                    put(partial, path)
            return path, is_new
        finally:
            partial.unlink(missing_ok=True)


def _is_copy(path: Location) -> bool:
    """Whether a file is a copy of ours: its name is the digest of its content."""
    named_so = COPY.fullmatch(path.name)
    try:
        with open_file(path) as copy:
            return named_so is not None and hashlib.file_digest(copy, "sha256").hexdigest()[:32] == named_so[1]
    except OSError:
        return False


def remove_copies(directory: Directory, keep: Iterable[str]) -> None:
    """Delete copies of standard input in an owned directory, but those whose paths `keep` has."""
    home = directory.copies
    names = [name for name in directory.names_in(home) if COPY.fullmatch(name)]
    kept_names = {named(path).name for path in keep} if names else set()
    directory.remove(f"{STANDARD_INPUT}/{name}" for name in names if name not in kept_names and _is_copy(home / name))


@contextlib.contextmanager
def removed_if_refused(directory: Directory) -> Iterator[None]:
    """Delete the copy of standard input if the block refuses its text."""
    try:
        yield
    except InvalidTextError as error:
        message, copy_name = error.args[0], COPY.search(error.args[0])
        path = directory.copies / (copy_name[0] if copy_name else "none")
        if str(path) not in message or not _is_copy(path):
            raise
        directory.remove([f"{STANDARD_INPUT}/{path.name}"])
        raise InvalidTextError(f"{message.replace(str(path), 'standard input')} (its copy was deleted)") from None


def _read() -> bytes:
    with os_error_as(InputError, "standard input cannot be read", "name files instead"):
        return sys.stdin.buffer.read(_BLOCK_BYTES)
