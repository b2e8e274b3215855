"""Where files lie: a local path, or an object of a store that `pyarrow.fs` opens from a URI.

A `Location` is a `pathlib.Path` or a `Remote`, which has those of its operations that the project uses, so that the
rest of the code does not ask which one it has. The few things that the two do differently are functions here.
What a `Remote` needs, pyarrow first of all, is imported when one is first used.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from pipeline.base.errors import StorageError, UsageError
from pipeline.storage.reading import LocalFile, RemoteFile
from pipeline.storage.remote import Remote, RemoteError

Location: TypeAlias = Path | Remote
OpenFile: TypeAlias = LocalFile | RemoteFile
Item = TypeVar("Item")
Answer = TypeVar("Answer")

SCHEMES = ("abfs", "abfss", "file", "gcs", "gs", "hdfs", "hf", "s3", "viewfs")
_ASKED_AT_ONCE = 16
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_FLATTENED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/[^/]")  # what pathlib makes of a URI
_SECRET = re.compile(r"(^|[?&;])[^=&;]*(secret|password|token|access_key|account_key)[^=&;]*=", re.IGNORECASE)

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
    "remove",
    "same_place",
]


def is_uri(text: str) -> bool:
    """Whether a text is taken for a URI: a scheme of at least two letters and `://`."""
    return _URI.match(text) is not None


def location(value: str | os.PathLike[str] | Remote) -> Location:
    """What a text names: a URI a `Remote`, `file://` and everything else a local path.

    Raises `ValueError` saying what was expected, for a URI that names nothing or holds a secret.
    """
    if isinstance(value, Remote):
        return value
    name = os.fspath(value)
    scheme = _URI.match(name)
    if scheme is None:
        if isinstance(value, Path) and (flattened := _FLATTENED.match(name)) and flattened[1].lower() in SCHEMES:
            raise ValueError(f"the URI as a text, {flattened[1]}://...: a Path takes its slashes for one")
        return Path(name)
    kind = scheme[1].lower()
    if kind not in SCHEMES and not kind.startswith("fsspec+"):
        raise ValueError(f"a path, or a URI of a known scheme ({', '.join(SCHEMES)}, fsspec+...)")
    try:
        parts = urlsplit(name, allow_fragments=False)
    except ValueError as error:
        raise ValueError(f"a URI such as s3://bucket/key ({error})") from None
    if kind == "file":
        if parts.netloc not in ("", "localhost") or not unquote(parts.path):
            raise ValueError("a URI of a local file such as file:///home/me/corpus")
        return Path(unquote(parts.path))
    if ":" in parts.netloc.rpartition("@")[0] or _SECRET.search(parts.query):
        raise ValueError(
            "a URI without credentials, which would be written into run.json and the log (give them in the "
            "environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
        )
    key = "/".join(part for part in unquote(parts.path).split("/") if part)
    if not parts.netloc and (kind in ("s3", "gs", "gcs") or not key):
        raise ValueError("a URI that names something, such as s3://bucket/key")
    return Remote(f"{kind}://{parts.netloc}", parts.query, key)


def named(value: str | os.PathLike[str] | Remote) -> Location:
    """As `location`, with `UsageError` for what names nothing."""
    try:
        return location(value)
    except ValueError as error:
        raise UsageError(f"{value} is not understood: expected {error}") from None


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


def same_place(one: Location, other: Location) -> bool:
    """Whether two locations are the same; of local paths, whatever links they go through."""
    if isinstance(one, Path) and isinstance(other, Path):
        return one.resolve() == other.resolve()
    return one == other


def remove(where: Location) -> None:
    """Remove a file, or a directory with everything in it; nothing where there is none. Raises OSError."""
    if isinstance(where, Remote):
        where.remove()
    elif where.is_dir():
        import shutil

        shutil.rmtree(where)
    else:
        where.unlink(missing_ok=True)
