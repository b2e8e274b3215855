"""Where bytes are stored: a local path, or an object of a store that `pyarrow.fs` opens from a URI.

A `Location` is a `pathlib.Path` or a `Remote`, which has the operations of a path that this project uses; the few that
differ are functions here. pyarrow is imported when the first `Remote` is used.

Files of limited size are read bounded: no file can use more memory than its kind needs, be it a pipe or a device.
"""

import errno
import io
import json
import os
import re
from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import StorageError, unfit
from bpe_pipeline.storage.remote import BY_FSSPEC
from bpe_pipeline.storage.remote import Remote as Remote
from bpe_pipeline.storage.remote import RemoteError as RemoteError
from bpe_pipeline.storage.remote import RemoteFile as RemoteFile

Item = TypeVar("Item")
Answer = TypeVar("Answer")

SCHEMES = ("abfs", "abfss", "file", "gcs", "gs", "hdfs", "hf", "s3", "viewfs")
CONFIG_BYTES = 1 << 18  # YAML needs up to five seconds for this size
MODEL_BYTES = 1 << 28  # a vocabulary of a million tokens takes about 80 MB
MANIFEST_BYTES = 1 << 28  # the listing of a million files takes about 200 MB
_MAX_REQUESTS = 16  # at the same time
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_FLATTENED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/[^/]")  # what pathlib makes of a URI
_STORED = {  # names in queries that Arrow documents and that are no secrets
    *("region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion", "tls_ca_file_path"),
    *("check_directory_existence_before_creation", "allow_delayed_open", "smart_defaults", "force_virtual_addressing"),
    *("retry_limit_seconds", "default_bucket_location", "enable_tls", "blob_storage_scheme", "dfs_storage_scheme"),
    *("blob_storage_authority", "dfs_storage_authority", "background_writes", "credential_kind", "tenant_id"),
    *("client_id", "replication", "buffer_size", "default_block_size", "use_hdfs3", "kerb_ticket"),
}


class LocalFile(io.FileIO):
    """An open local file."""

    def read_at(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from a position; threads may share the file for this."""
        return os.pread(self.fileno(), size, start)

    def state(self) -> tuple[int, int, int]:
        """Return the current size, modification time and time of any change (ns), which no program can set."""
        status = os.fstat(self.fileno())
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns


if TYPE_CHECKING:
    Location: TypeAlias = Path | Remote
else:

    class Location(ABC):  # noqa: B024 - one type for what reads stored values by their types
        """Where bytes are stored."""

    Location.register(Path)
    Location.register(Remote)

OpenFile: TypeAlias = LocalFile | RemoteFile


def is_uri(text: str) -> bool:
    """Return whether a text is read as a URI: a scheme of at least two letters and `://`."""
    return _URI.match(text) is not None


def location(value: str | os.PathLike[str] | Remote) -> Location:
    """Parse a location: a URI is a `Remote`, all else a local path. `ValueError` for a URI that cannot be used."""
    if isinstance(value, Remote):
        return value
    name = os.fspath(value)
    scheme = _URI.match(name)
    if scheme is None:
        if isinstance(value, Path) and (flattened := _FLATTENED.match(name)) and flattened[1].lower() in SCHEMES:
            raise ValueError(f"the URI as a text, {flattened[1]}://...: a Path joins its two slashes")
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
    if ":" in parts.netloc.rpartition("@")[0]:
        raise ValueError(
            "a URI without a user's password (set it in the environment, such as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY)"
        )
    key = "/".join(part for part in unquote(parts.path).split("/") if part)
    if not parts.netloc and (kind in ("s3", "gs", "gcs") or not key):
        raise ValueError("a URI that names something, such as s3://bucket/key")
    base = f"{kind}://{parts.netloc}"
    query = parts.query.split("&")
    stored = [entry for entry in query if entry.partition("=")[0] in _STORED and not base.startswith(BY_FSSPEC)]
    secret = "&".join(entry for entry in query if entry not in stored)
    return Remote(base, "&".join(stored), key, secret or getattr(value, "secret", ""))


def named(value: str | os.PathLike[str] | Remote, argument: str = "path") -> Location:
    """Parse a location; raises `UsageError`, which names the argument, for anything else."""
    try:
        return location(value if isinstance(value, Remote | Path) else path_text(value))
    except ValueError as error:
        raise unfit(argument, str(error), value) from None


def absolute(path: Location) -> str:
    """Return a name by which a path is found from any directory."""
    return str(path.absolute() if isinstance(path, Path) else path)


def path_text(value: object) -> str:
    """Return a path as text; `ValueError` if it is empty, has a NUL character or is no name that can be used here."""
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError("a path: a text that is not empty and has no NUL character")
    try:
        name.encode()
        if not is_uri(name):
            os.fsencode(name)
    except UnicodeEncodeError:
        if (reason := system.undecodable(name)).startswith("has"):
            raise ValueError(f"a path that can be read here; this one {reason}") from None
        raise ValueError("a path whose name is valid UTF-8: rename it") from None
    return name


def parse_location(value: object) -> Location:
    """Read the value of an option: a path, where `~` is the home directory, or a URI. Raises `ValueError`."""
    if isinstance(value, Remote):
        return value
    text = path_text(value)
    where = location(value if isinstance(value, Path) else text)
    try:
        return where.expanduser() if isinstance(value, str) and isinstance(where, Path) and not is_uri(text) else where
    except RuntimeError:
        raise ValueError("a path below an existing home directory (write ./~name for a file of that name)") from None


def same_location(first: Location, second: Location) -> bool:
    """Return whether two locations are the same; of local paths with all links resolved."""
    if isinstance(first, Path) and isinstance(second, Path):
        return first.resolve() == second.resolve()
    return first == second


def open_file(where: Location) -> OpenFile:
    """Open a file to read bytes from any position. Raises OSError, also for a pipe, which could block forever."""
    if isinstance(where, Path) and where.is_fifo():
        raise OSError(errno.ESPIPE, "is not a regular file but a pipe", str(where))
    return LocalFile(where) if isinstance(where, Path) else RemoteFile(where)


def sha256_of(file: Location) -> str | None:
    """Return the SHA-256 of a file in hexadecimal digits; None if it is missing."""
    import hashlib  # loads OpenSSL, which takes 2 ms that no help needs

    try:
        with io.BufferedReader(open_file(file)) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def arrow_source(where: Location) -> Any:
    """Return what Arrow's readers take for a file; the caller closes the reader with `close(force=True)`."""
    return where if isinstance(where, Path) else RemoteFile(where)


def names_in(directory: Location) -> list[str]:
    """Return the sorted names of files and directories in a directory; none if it does not exist. Raises OSError."""
    if isinstance(directory, Remote):
        return [child.name for child in directory.children()]
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - only the names are needed
    except FileNotFoundError:
        return []


def unreadable(where: object, error: OSError) -> StorageError:
    """Return the error for a file that the system or a store does not let us read; its content may be intact."""
    remedy = "" if isinstance(error, RemoteError) else "; make it readable"  # a store's reason has its own remedy
    return StorageError(f"{where} cannot be read: {error.strerror or error}{remedy}")


def read_bounded(where: Location, most_bytes: int) -> bytes:
    """Return the bytes of a file. Raises OSError, and `ValueError` if there are more than `most_bytes`."""
    with io.BufferedReader(open_file(where)) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes >> 10:,} KiB, the most that such a file may be")
    return data


def read_json(where: Location, most_bytes: int | None = None) -> Any:
    """Return the value in a JSON file; `ValueError` with the reason if it is larger than `most_bytes`, or not JSON."""
    try:
        return json.loads(read_bounded(where, most_bytes or MANIFEST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise unreadable(where, error) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def existing(files: Sequence[Location]) -> list[bool]:
    """Return which files exist, with one request per directory of a store. Raises `RemoteError`."""
    parents = {file.parent for file in files if isinstance(file, Remote)}
    names = {parent: set(names_in(parent)) for parent in parents}
    return [file.name in names[file.parent] if isinstance(file, Remote) else file.exists() for file in files]


def each(
    function: Callable[[Item], Answer], items: Sequence[Item], places: Sequence[object] | None = None
) -> Iterator[Answer]:
    """Yield the function's result for each item, in order; if a place is in a store, up to 16 at the same time.

    places: None if the items are.
    """
    if not any(isinstance(place, Remote | str) and is_uri(str(place)) for place in places or items):
        yield from map(function, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_MAX_REQUESTS) as pool:
        yield from pool.map(function, items)


def remove(where: Location) -> None:
    """Remove a file, if it exists. Raises OSError."""
    if isinstance(where, Remote):
        where.remove()
    else:
        where.unlink(missing_ok=True)
