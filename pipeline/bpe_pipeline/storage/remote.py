"""An object or a prefix in a store that `pyarrow.fs` opens from a URI, with the operations of a path.

Every failure is an OSError whose `strerror` is one line: `FileNotFoundError` for what does not exist, `RemoteError` for
everything else (credentials, network, region, ...). A file system is opened once per process.
"""

import contextlib
import errno
import functools
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from bpe_pipeline.base.errors import StorageError
from bpe_pipeline.base.printable import printable, without_secrets
from bpe_pipeline.storage.scratch import own_mark

_SAFE = "/:@!$&'()*+,;=~"  # characters that are not quoted in the path of a URI
_FLAT = ("s3", "gcs", "abfs")  # stores without directories, in which an upload appears whole or not at all
_LEAST_AHEAD, _MOST_AHEAD = 64 << 10, 8 << 20  # bytes
BY_FSSPEC = ("fsspec+", "hf:")  # a query is part of an object's name, and no option of the file system
_MARKED_PREFIX = "_$folder$"  # the end of Hadoop's name for a prefix
_SMALL_BYTES = 256 << 10  # objects up to this size are read with one request
_MAX_ATTEMPTS = 3
_MAX_CHARACTERS = 240

_REMEDIES = (  # by a pattern in Arrow's message
    (r"NO_SUCH_BUCKET|bucket does not exist", "check the bucket's name"),
    (
        r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|EXPIRED_TOKEN|InvalidAccessKeyId"
        r"|credential|HTTP status 40[13]|\bForbidden\b|Unauthorized",
        "check the credentials in the environment (for S3 AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_PROFILE), "
        "or name them in the URI's query again, which is not stored",
    ),
    (
        r"NETWORK_CONNECTION|curlCode|resolve host|timed? ?out|onnection",
        "check the network and the URI's endpoint_override, and run the same command again to resume",
    ),
    (r"\b301\b|PERMANENT_REDIRECT|region", "name the bucket's region in the URI (?region=...)"),
    (
        r"INTERNAL_FAILURE|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING|HTTP status 5\d\d",
        "the store failed or was busy, after several attempts: run the same command again to resume",
    ),
)


class RemoteError(OSError, StorageError):
    """A store does not answer or refuses; `strerror` is reason and remedy in one line, `filename` the location."""

    def __str__(self) -> str:
        return printable(f"{self.filename} cannot be read: {self.strerror}")


class RemoteStatus(NamedTuple):
    """Size and modification time of an object, named as in `os.stat_result`."""

    st_size: int
    st_mtime_ns: int


class Child(NamedTuple):
    """An entry of a prefix: its key relative to the prefix, and whether it is an object or itself a prefix."""

    name: str
    is_file: bool


class Uri(str):
    """A URI as it is stored and printed. secret: the rest of its query, which opens it and goes nowhere else."""

    secret = ""


@dataclass(frozen=True)
class Remote:
    """One object or prefix. base: scheme and bucket (`s3://bucket`); query: what of the URI's is stored; key: without
    outer slashes; secret: the rest of the query."""

    base: str
    query: str
    key: str
    secret: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        uri = Uri(f"{self.base}/{quote(self.key, safe=_SAFE)}" + (f"?{self.query}" if self.query else ""))
        uri.secret = self.secret
        return uri

    def as_prefix(self) -> Uri:
        """Return the URI with a slash behind the key, which means what is below it and no object of this name."""
        path, mark, query = str(self).partition("?")
        uri = Uri(f"{path.removesuffix('/')}/{mark}{query}")
        uri.secret = self.secret
        return uri

    @property
    def name(self) -> str:
        """The last component of the key."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The end of the name, from its last dot."""
        return os.path.splitext(self.name)[1]  # noqa: PTH122 - a key is not a path of this system

    @property
    def parent(self) -> "Remote":
        """The prefix that contains it; the bucket's is the bucket."""
        return replace(self, key=self.key.rpartition("/")[0])

    def __truediv__(self, name: str) -> "Remote":
        return replace(self, key=f"{self.key}/{name}" if self.key else name)

    def with_name(self, name: str) -> "Remote":
        """Return the location with this name in the same prefix."""
        return self.parent / name

    def exists(self) -> bool:
        """Return whether it is an object, or a prefix of objects."""
        return bool(self._info().type)

    def is_file(self) -> bool:
        """Return whether it is an object."""
        return bool(self._info().is_file)

    def is_dir(self) -> bool:
        """Return whether it is a prefix of objects."""
        return bool(self._info().type.name == "Directory")

    def stat(self) -> RemoteStatus:
        """Return size and modification time of an object, or raise FileNotFoundError."""
        info = self._info()
        if not info.is_file:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return RemoteStatus(int(info.size), int(info.mtime_ns or 0))

    def marks_prefix(self) -> bool:
        """Return whether it is an object without a byte that stands for the prefix of its name."""
        info = self._info()
        return bool(info.is_file and not info.size and self.children())

    def read_bytes(self) -> bytes:
        """Return the whole object."""
        with self._opened() as (filesystem, path), filesystem.open_input_file(path) as file:
            return bytes(file.read())

    def open_input(self) -> Any:
        """Return Arrow's file, for reading from any position."""
        with self._opened() as (filesystem, path):
            return filesystem.open_input_file(path)

    def upload(self, local: Path) -> None:
        """Write a local file here as one whole object; replaces an existing one."""
        from pyarrow import fs

        with self._opened() as (filesystem, path):
            partial = path
            if filesystem.type_name not in _FLAT:
                partial = path.removesuffix(self.name) + f".{self.name}.{own_mark()}.partial"
            # One call into Arrow, so that a KeyboardInterrupt comes before or after it.
            fs.copy_files(
                str(local), partial, source_filesystem=fs.LocalFileSystem(), destination_filesystem=filesystem
            )
            if partial != path:
                with contextlib.suppress(FileNotFoundError):
                    filesystem.delete_file(path)
                filesystem.move(partial, path)
        if self.stat().st_size != local.stat().st_size:
            raise RemoteError(errno.EIO, "the stored object is not the one that was uploaded", str(self))

    def mkdir(self, *, parents: bool, exist_ok: bool) -> None:  # noqa: ARG002 - as a path's; both are implied
        """Make the directory, if the store has directories."""
        with self._opened() as (filesystem, path):
            if filesystem.type_name not in _FLAT:
                filesystem.create_dir(path, recursive=True)

    def children(self, *, recursive: bool = False) -> list[Child]:
        """Return the entries (`recursive`: at all depths), sorted by the components of their keys.

        Objects without a byte by which programs mark a prefix (`x` next to `x/...`, `x_$folder$`) are none.
        """
        from pyarrow import fs

        with self._opened() as (filesystem, path):
            selector = fs.FileSelector(path, allow_not_found=True, recursive=recursive)
            try:
                infos = filesystem.get_file_info(selector)
            except NotADirectoryError:  # an object, for the file systems that know the difference
                infos = []
        prefixes = {info.path for info in infos if not info.is_file}
        children = [
            Child(info.path.removeprefix(path).removeprefix("/"), bool(info.is_file))
            for info in infos
            if not info.is_file or info.size or not (info.path in prefixes or info.path.endswith(_MARKED_PREFIX))
        ]
        return sorted(children, key=lambda child: child.name.split("/"))

    def remove(self) -> None:
        """Remove the object, or everything in the prefix, if it exists."""
        info = self._info()
        if info.type:
            with self._opened() as (filesystem, path), contextlib.suppress(FileNotFoundError):
                (filesystem.delete_file if info.is_file else filesystem.delete_dir)(path)

    def _info(self) -> Any:
        with self._opened() as (filesystem, path):
            return filesystem.get_file_info(path)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[Any, str]]:
        """Yield the file system and the path in it; Arrow's errors get a reason of one line."""
        with one_line_errors(str(self)):
            query = "&".join(filter(None, (self.query, self.secret)))
            of_object = query and self.base.startswith(BY_FSSPEC)
            filesystem, prefix = _filesystem(self.base, "" if of_object else query)
            path = (prefix + self.key).rstrip("/") or prefix
            yield filesystem, f"{path}?{query}" if of_object else path


class RemoteFile(io.RawIOBase):
    """An open object of a store; sequential reading doubles the bytes of each request, since each is a round trip."""

    _file: Any = None  # until it is open

    def __init__(self, where: Remote) -> None:
        self._where = where
        self._file = where.open_input()
        with one_line_errors(str(where)):
            self._size = int(self._file.size())
        self._position = 0
        self._ahead = _LEAST_AHEAD
        self._block, self._block_start = b"", 0
        self._small = b""

    def read_at(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from a position; threads may share the file for this."""
        size = min(size, self._size - start)
        if size <= 0:
            return b""
        if self._size > _SMALL_BYTES:
            return self._read_at(start, size)
        self._small = self._small or self._read_at(0, self._size)
        return self._small[start : start + size]

    def _read_at(self, start: int, size: int) -> bytes:
        """Return exactly these bytes; a transfer that breaks off is continued with further requests."""
        parts: list[bytes] = []
        while size > 0:
            if len(parts) >= _MAX_ATTEMPTS and not any(parts[-_MAX_ATTEMPTS:]):
                raise RemoteError(errno.EIO, "it breaks off; run the same command again to resume", str(self._where))
            with one_line_errors(str(self._where)):
                parts.append(bytes(self._file.read_at(size, start)))
            start, size = start + len(parts[-1]), size - len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def state(self) -> tuple[int, int, int]:
        """Return the current size, the modification time (ns), and 0: a store has one time, and sets it itself."""
        status = self._where.stat()
        return status.st_size, status.st_mtime_ns, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    seekable = readable

    def tell(self) -> int:
        """Return the position of the next byte to read."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next byte to read."""
        self._position = max(0, offset + (0, self._position, self._size)[whence])
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or as much as there is up to the end: Arrow takes a short read for the end."""
        target = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(target):
            at = self._position - self._block_start
            if not 0 <= at < len(self._block):
                in_order = at == len(self._block)
                self._ahead = min(2 * self._ahead, _MOST_AHEAD) if in_order else _LEAST_AHEAD
                self._block = self.read_at(self._position, max(len(target) - filled, self._ahead))
                self._block_start, at = self._position, 0
            available = memoryview(self._block)[at : at + len(target) - filled]
            if not available:
                break
            target[filled : filled + len(available)] = available
            filled += len(available)
            self._position += len(available)
        return filled

    def close(self) -> None:
        """Close the connection."""
        if not self.closed and self._file is not None:
            self._file.close()
            self._block = self._small = b""
        super().close()


@functools.cache
def _filesystem(base: str, query: str) -> tuple[Any, str]:
    """Return Arrow's file system and the prefix of all keys in its paths."""
    from pyarrow import fs

    root = base if base.rpartition("://")[2] else f"{base}/"
    filesystem, path = fs.FileSystem.from_uri(root + (f"?{query}" if query else ""))
    return filesystem, path if path in ("", "/") else f"{path.rstrip('/')}/"


@contextlib.contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Turn Arrow's errors into FileNotFoundError or `RemoteError`, each with a reason of one line."""
    try:
        yield
    except RemoteError:
        raise
    except FileNotFoundError as error:
        reason = reason_of(error) if "bucket" in str(error).lower() else os.strerror(errno.ENOENT)
        raise FileNotFoundError(errno.ENOENT, reason, name) from None
    except (OSError, ValueError, ImportError, NotImplementedError) as error:
        number = (error.errno if isinstance(error, OSError) else None) or errno.EIO
        raise RemoteError(number, reason_of(error), name) from None


def reason_of(error: Exception) -> str:
    """Shorten Arrow's message to one line and add the remedy.

    `When ...: AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7, ...` ->
    `cannot reach the store: curlCode: 7, ... (check the network ...)`
    """
    full = without_secrets(" ".join(str(error).split()))
    match = re.search(r"AWS Error (\S+)(?: \[code \d+\])?(?: \([^)]*\))? during \w+ operation: (.*)", full)
    text = f"{match[1]}: {match[2]}".replace("NETWORK_CONNECTION", "cannot reach the store") if match else full
    text = re.split(r" Detail: | \(Request ID|\. (?=Looks like)", text)[0].rstrip(". ") or type(error).__name__
    if len(text) > _MAX_CHARACTERS:
        text = text[: _MAX_CHARACTERS - 1] + "…"
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, full)), None)
    return f"{text} ({remedy})" if remedy else text
