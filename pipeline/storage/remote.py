"""An object or a prefix in a store that `pyarrow.fs` opens from a URI, with the operations of a path.

Everything that goes wrong there is an OSError whose `strerror` is one short line: `FileNotFoundError` for what is not
there, `RemoteError` for the rest (credentials, network, region, ...). A file system is made once a process.
"""

import contextlib
import errno
import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pipeline.storage.scratch import own_mark

_SAFE = "/:@!$&'()*+,;=~"  # what stands in the path of a URI as it is
_FLAT = ("s3", "gcs", "abfs")  # stores without directories, in which an upload appears whole or not at all
_MOST_CHARACTERS = 240

# How to go on, by what stands in Arrow's message.
_REMEDIES = (
    (r"NO_SUCH_BUCKET|bucket does not exist", "check the bucket's name"),
    (
        r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|EXPIRED_TOKEN|InvalidAccessKeyId"
        r"|credential|HTTP status 40[13]|\bForbidden\b|Unauthorized",
        "check the credentials in the environment (for S3 AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_PROFILE)",
    ),
    (r"\b301\b|PERMANENT_REDIRECT|region", "name the bucket's region in the URI (?region=...)"),
    (
        r"INTERNAL_FAILURE|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING|HTTP status 5\d\d",
        "the store failed or was busy, after several attempts: run the same command again to go on",
    ),
    (
        r"NETWORK_CONNECTION|curlCode|resolve host|timed? ?out|onnection",
        "check the network and the URI's endpoint_override, and run the same command again to go on",
    ),
)


class RemoteError(OSError):
    """A store that cannot be asked, or refused; `strerror` says why and what to do, in one line, `filename` where."""


class RemoteStatus(NamedTuple):
    """What a store says of an object, by the names of `os.stat_result`."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True)
class Remote:
    """One object or prefix. base: scheme and bucket (`s3://bucket`); query: of the URI; key: without outer slashes."""

    base: str
    query: str
    key: str

    def __str__(self) -> str:
        return f"{self.base}/{quote(self.key, safe=_SAFE)}" + (f"?{self.query}" if self.query else "")

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot on."""
        return os.path.splitext(self.name)[1]  # noqa: PTH122 - a key is no path of this system

    @property
    def parent(self) -> "Remote":
        """What holds it; the bucket holds itself."""
        return Remote(self.base, self.query, self.key.rpartition("/")[0])

    def __truediv__(self, name: str) -> "Remote":
        return Remote(self.base, self.query, f"{self.key}/{name}" if self.key else name)

    def with_name(self, name: str) -> "Remote":
        """What has this name beside it."""
        return self.parent / name

    def exists(self) -> bool:
        """Whether there is such an object, or anything below."""
        return bool(self._info().type)

    def is_file(self) -> bool:
        """Whether there is such an object."""
        return bool(self._info().is_file)

    def is_dir(self) -> bool:
        """Whether there is anything below."""
        info = self._info()
        return bool(info.type) and not info.is_file

    def stat(self) -> RemoteStatus:
        """Size and time of change of an object; FileNotFoundError where there is none."""
        info = self._info()
        if not info.is_file:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return RemoteStatus(int(info.size), int(info.mtime_ns or 0))

    def read_bytes(self) -> bytes:
        """All of an object."""
        with self._opened() as (filesystem, path), filesystem.open_input_file(path) as file:
            return bytes(file.read())

    def read_text(self, encoding: str = "utf-8") -> str:
        """All of an object as text."""
        return self.read_bytes().decode(encoding)

    def open_input(self) -> Any:
        """Arrow's file, for reading from any place."""
        with self._opened() as (filesystem, path):
            return filesystem.open_input_file(path)

    def upload(self, local: Path) -> None:
        """Put a local file in this place, as one whole object; what was there before is replaced."""
        from pyarrow import fs

        with self._opened() as (filesystem, path):
            partial = path
            if filesystem.type_name not in _FLAT:
                partial = self.with_name(f".{self.name}.{own_mark()}.partial")._opened_path()
            # One call into Arrow: an interruption of ours comes before it or after it.
            fs.copy_files(
                str(local), partial, source_filesystem=fs.LocalFileSystem(), destination_filesystem=filesystem
            )
            if partial != path:
                with contextlib.suppress(FileNotFoundError):
                    filesystem.delete_file(path)
                filesystem.move(partial, path)
        if self.stat().st_size != local.stat().st_size:
            raise RemoteError(errno.EIO, "what was uploaded is not what lies there now", str(self))

    def make_directory(self) -> None:
        """Make the directory, in a store that knows any."""
        with self._opened() as (filesystem, path):
            if filesystem.type_name not in _FLAT:
                filesystem.create_dir(path, recursive=True)

    def children(self, *, recursive: bool = False) -> "list[Child]":
        """What lies in it (with `recursive`: also below), in order of the parts of the key; nothing where it is not."""
        from pyarrow import fs

        with self._opened() as (filesystem, path):
            selector = fs.FileSelector(path, allow_not_found=True, recursive=recursive)
            try:
                found = filesystem.get_file_info(selector)
            except NotADirectoryError:  # an object: some filesystems tell it from a prefix
                found = []
        base = f"{path}/" if path and not path.endswith("/") else path
        children = [Child(info.path.removeprefix(base).strip("/"), bool(info.is_file)) for info in found]
        return sorted(children, key=lambda child: child.name.split("/"))

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove an object."""
        try:
            with self._opened() as (filesystem, path):
                filesystem.delete_file(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove(self) -> None:
        """Remove the object, or everything below; nothing where there is none."""
        info = self._info()
        with self._opened() as (filesystem, path), contextlib.suppress(FileNotFoundError):
            if info.is_file:
                filesystem.delete_file(path)
            elif info.type:
                filesystem.delete_dir(path)

    def _info(self) -> Any:
        with self._opened() as (filesystem, path):
            return filesystem.get_file_info(path)

    def _opened_path(self) -> str:
        return _filesystem(self.base, self.query)[1] + self.key

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[Any, str]]:
        """The file system and the path in it; what Arrow says of a failure becomes one line."""
        with failures_told(str(self)):
            filesystem, prefix = _filesystem(self.base, self.query)
            yield filesystem, (prefix + self.key).rstrip("/") or prefix


class Child(NamedTuple):
    """Something in a prefix: its key from there on, and whether it is an object or itself a prefix."""

    name: str
    is_file: bool


@functools.cache
def _filesystem(base: str, query: str) -> tuple[Any, str]:
    """Arrow's file system and what stands before every key in its paths."""
    from pyarrow import fs

    root = base if base.rpartition("://")[2] else f"{base}/"
    filesystem, path = fs.FileSystem.from_uri(root + (f"?{query}" if query else ""))
    return filesystem, path if path in ("", "/") else f"{path.rstrip('/')}/"


@contextlib.contextmanager
def failures_told(name: str) -> Iterator[None]:
    """Turn what Arrow raises into FileNotFoundError or `RemoteError`, each with a reason of one line."""
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
    """Arrow's long message as one line, with what to do about it.

    `When reading information for key 'k' in bucket 'b': AWS Error NETWORK_CONNECTION during HeadObject operation:
    curlCode: 7, ...` -> `NETWORK_CONNECTION: curlCode: 7, ...; check the network ...`
    """
    full = " ".join(str(error).split())
    told = re.search(r"AWS Error (\S+)(?: \[code \d+\])?(?: \([^)]*\))? during \w+ operation: (.*)", full)
    text = f"{told[1]}: {told[2]}" if told else full
    text = re.split(r" Detail: | \(Request ID|\. (?=Looks like)", text)[0].rstrip(". ") or type(error).__name__
    if len(text) > _MOST_CHARACTERS:
        text = text[: _MOST_CHARACTERS - 1] + "…"
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, full)), None)
    return f"{text} ({remedy})" if remedy else text
