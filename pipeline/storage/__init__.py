"""Where files lie: a local path, or an object of a store that `pyarrow.fs` opens from a URI.

A `Location` is a `pathlib.Path` or a `Remote`, which has those of its operations that the project uses, so that the
rest of the code does not ask which one it has. The few things that the two do differently are functions here.
What a `Remote` needs, pyarrow first of all, is imported when one is first used.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pipeline.base.errors import StorageError
from pipeline.storage.parsing import (
    SCHEMES,
    Location,
    is_uri,
    location,
    named,
    parse_location,
    path_text,
    same_place,
)
from pipeline.storage.reading import LocalFile, RemoteFile
from pipeline.storage.remote import Remote, RemoteError

OpenFile: TypeAlias = LocalFile | RemoteFile
Item = TypeVar("Item")
Answer = TypeVar("Answer")

_ASKED_AT_ONCE = 16

__all__ = [
    "SCHEMES",
    "LocalFile",
    "Location",
    "OpenFile",
    "Remote",
    "RemoteError",
    "RemoteFile",
    "arrow_source",
    "each",
    "existing",
    "exists",
    "is_uri",
    "location",
    "named",
    "names_in",
    "open_file",
    "parse_location",
    "path_text",
    "remove",
    "same_place",
]


def open_file(where: Location) -> OpenFile:
    """Open a file for reading bytes from any place. Raises OSError."""
    return LocalFile(where) if isinstance(where, Path) else RemoteFile(where)


def arrow_source(where: Location) -> Any:
    """What Arrow's readers take for a file; who gives it to one closes it there (`close(force=True)`)."""
    return where if isinstance(where, Path) else RemoteFile(where)


def names_in(directory: Location) -> list[str]:
    """The names of files and directories in a directory, sorted; none where it is not there. Raises OSError."""
    if isinstance(directory, Remote):
        return [child.name for child in directory.children()]
    try:
        return sorted(child.name for child in directory.iterdir())
    except FileNotFoundError:
        return []


def exists(where: Location) -> bool:
    """Whether there is such a file or directory. Raises `StorageError` where a store cannot be asked."""
    try:
        return where.exists()
    except RemoteError as error:
        raise StorageError(f"{where} cannot be read: {error.strerror}") from None


def existing(files: Sequence[Location]) -> list[bool]:
    """Which of these files exist: a store is asked once for each directory, not for each file.

    Raises `StorageError` where it cannot be asked.
    """
    names: dict[Location, set[str]] = defaultdict(set)
    for parent in {file.parent for file in files if isinstance(file, Remote)}:
        try:
            names[parent] = set(names_in(parent))
        except OSError as error:
            raise StorageError(f"{parent} cannot be read: {error.strerror or error}") from None
    return [file.name in names[file.parent] if isinstance(file, Remote) else file.exists() for file in files]


def each(function: Callable[[Item], Answer], items: Sequence[Item], *, remote: bool) -> Iterator[Answer]:
    """The answers for all items, in their order; of a store many are asked for at a time, since each is a wait."""
    if not remote:
        yield from map(function, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        yield from pool.map(function, items)


def remove(where: Location) -> None:
    """Remove a file, or a directory with everything in it; nothing where there is none. Raises OSError."""
    if isinstance(where, Remote):
        where.remove()
    elif where.is_dir():
        import shutil

        shutil.rmtree(where)
    else:
        where.unlink(missing_ok=True)
