"""Files that appear whole or not at all: written next to their final name, flushed to disk, renamed.

For an object store the file is written locally, and a completed upload takes the place of the rename. A rename never
replaces a device, a socket or a pipe.
"""

import contextlib
import errno
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.storage import Location, Remote, open_file
from bpe_pipeline.storage.scratch import PARTIAL, own_mark, scratch_directory, sweep_once

_COMPARED_BYTES = 4 << 20  # at once


@contextlib.contextmanager
def whole_file(
    where: Location,
    remedy: str = "free disk space or choose another --output",
    *,
    keep_same: bool = False,
    sync_directory: bool = True,
) -> Iterator[Path]:
    """Yield a local path to write to; when the block ends without an error, that file replaces `where`.

    After a kill at any moment `where` is absent, or complete and on disk. With `keep_same`, a file that has exactly
    these bytes already is not replaced. sync_directory: False where the caller does so for many files at once. Raises
    `RunDirectoryError`, with this remedy.
    """
    with os_error_as(RunDirectoryError, f"{where} cannot be written", remedy), parts_next_to(where) as neighbour:
        sweep_once(neighbour.parent)
        partial = neighbour.with_name(f".{where.name}.{own_mark()}{PARTIAL}")
        try:
            yield partial
            if keep_same and _have_same_bytes(partial, where):
                return
            if isinstance(where, Path):
                system.flush(partial)
            put(partial, where, sync_directory=sync_directory)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink()


def single_output(where: Location, *, overwrite: bool) -> Location:
    """Return where to write a file that the user named: the same, or what it leads to if it is a link.

    Raises `RunDirectoryError` for a device, a socket, a pipe or a directory, and, unless `overwrite`, for a file that
    is not empty.
    """
    size = 0
    refused = os_error_as(RunDirectoryError, f"{where} cannot be written", "name another file")
    with refused, contextlib.suppress(FileNotFoundError):
        size = where.stat().st_size
        if isinstance(where, Path) and not where.is_file():
            raise _not_a_file(where)
    if isinstance(where, Path) and not where.parent.exists():
        raise RunDirectoryError(
            f"{where} cannot be written: No such file or directory; make its directory, or name another"
        )
    if size and not overwrite:
        raise RunDirectoryError(f"{where} exists; name another file, or replace it with --overwrite")
    return Path(os.path.realpath(where)) if isinstance(where, Path) else where


def _not_a_file(where: Path) -> RunDirectoryError:
    return RunDirectoryError(f"{where} is not a regular file but a directory, device, socket or pipe; name a file")


@contextlib.contextmanager
def parts_next_to(where: Location) -> Iterator[Path]:
    """Yield a local path next to which `.NAME.*` may hold parts of `where`; it is `where` itself if that is local."""
    if isinstance(where, Path):
        yield where
    else:
        with scratch_directory() as directory:
            yield directory / where.name


@contextlib.contextmanager
def appendable(where: Location) -> Iterator[Path]:
    """Yield a local path to append to: the file itself, or a copy of a remote one, uploaded when the block ends.

    It is uploaded also after an error, but what a killed process appended is lost. Raises `RunDirectoryError`.
    """
    with parts_next_to(where) as path:
        if isinstance(where, Path):
            yield path
            return
        refused = os_error_as(RunDirectoryError, f"{where} cannot be read", "fix that, or remove it")
        with refused, contextlib.suppress(FileNotFoundError):
            path.write_bytes(where.read_bytes())
        try:
            yield path
        except BaseException:
            with contextlib.suppress(OSError):
                where.upload(path)
            raise
        with os_error_as(RunDirectoryError, f"{where} cannot be written", "run the same command again"):
            where.upload(path)


def put(complete: Path, where: Location, *, sync_directory: bool = True) -> None:
    """Move a complete local file to `where`, or upload it; refuses to replace what is no file. Raises OSError."""
    if isinstance(where, Remote):
        where.upload(complete)
    else:
        with contextlib.suppress(FileNotFoundError):
            if not (stat.S_ISREG(mode := where.lstat().st_mode) or stat.S_ISLNK(mode)):
                raise _not_a_file(where)
        complete.replace(where)
        if sync_directory:
            system.flush(where.parent)


def move(complete: Path, where: Location) -> None:
    """Move a complete local file as `put` does, also to another file system. Its directory is not flushed."""
    try:
        put(complete, where, sync_directory=False)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with whole_file(where, sync_directory=False) as partial:
            shutil.copyfile(complete, partial)
        complete.unlink()


def write_whole(where: Location, data: bytes | str) -> None:
    """Write a small file as `whole_file` does."""
    with whole_file(where) as partial:
        partial.write_bytes(data.encode() if isinstance(data, str) else data)


def write_json(where: Location, document: object) -> None:
    """Write a JSON file as `whole_file` does."""
    write_whole(where, json_text(document))


def json_text(document: object) -> str:
    """Return JSON, one member a line."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def write_rows(where: Location, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Write a table as Parquet as `whole_file` does. columns: each with its Arrow type's name; `uint8[]`: a list."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    items = {name: pa.type_for_alias(kind.removesuffix("[]")) for name, kind in columns.items()}
    schema = pa.schema({name: pa.list_(kind) if columns[name].endswith("[]") else kind for name, kind in items.items()})
    with whole_file(where) as partial:
        pq.write_table(pa.Table.from_pylist(list(rows), schema), partial)


def make_directory(where: Location) -> None:
    """Make a directory and its parents. Raises `RunDirectoryError`."""
    with os_error_as(RunDirectoryError, f"directory {where} cannot be made", "choose another --output"):
        where.mkdir(parents=True, exist_ok=True)


def _have_same_bytes(written: Path, where: Location) -> bool:
    """Return whether the file at the location can be read and has the bytes of the one that was written."""
    at = 0
    with contextlib.suppress(OSError), open_file(written) as new, open_file(where) as old:
        while (block := new.read_at(at, _COMPARED_BYTES)) == old.read_at(at, _COMPARED_BYTES):
            if not block:
                return True
            at += len(block)
    return False
