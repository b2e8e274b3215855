"""Open files, read in order or from any place, that can be asked whether they changed: local ones and remote ones."""

import errno
import io
import os
from typing import TYPE_CHECKING, Any

from pipeline.storage.remote import Remote, RemoteError, failures_told

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_LEAST_AHEAD, _MOST_AHEAD = 64 << 10, 8 << 20  # bytes
_SMALL_BYTES = 256 << 10  # an object of no more is read at once
_MOST_ATTEMPTS = 3


class LocalFile(io.FileIO):
    """An open local file."""

    def read_at(self, start: int, size: int) -> bytes:
        """Up to so many bytes from a place; threads may share the file for this."""
        return os.pread(self.fileno(), size, start)

    def state(self) -> tuple[int, int]:
        """Size and time of change (ns), now."""
        status = os.fstat(self.fileno())
        return status.st_size, status.st_mtime_ns


class RemoteFile(io.RawIOBase):
    """An open object of a store. Each request costs a way there and back, so reading in order asks for more and more
    at once, up to 8 MiB; a seek starts small again. Raises `RemoteError`, also through Arrow's readers.
    """

    _file: Any = None  # until it is open

    def __init__(self, where: Remote) -> None:
        self._where = where
        self._file = where.open_input()
        with failures_told(str(where)):
            self._size = int(self._file.size())
        self._position = 0
        self._ahead = _LEAST_AHEAD
        self._block, self._block_start = b"", 0
        self._small: bytes | None = None

    def read_at(self, start: int, size: int) -> bytes:
        """Up to so many bytes from a place; threads may share the file for this."""
        size = min(size, self._size - start)
        if size <= 0:
            return b""
        if self._size <= _SMALL_BYTES:
            return self._whole()[start : start + size]
        return self._read_at(start, size)

    def _whole(self) -> bytes:
        if self._small is None:
            self._small = self._read_at(0, self._size)
        return self._small

    def _read_at(self, start: int, size: int) -> bytes:
        """So many bytes, which are there; the rest is asked for where a transfer broke off, which is no error."""
        parts: list[bytes] = []
        nothing = 0  # how often in a row nothing came
        while size > 0:
            with failures_told(str(self._where)):
                part = bytes(self._file.read_at(size, start))
            nothing = 0 if part else nothing + 1
            if nothing == _MOST_ATTEMPTS:
                raise RemoteError(errno.EIO, "it breaks off; run the same command again to go on", str(self._where))
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def state(self) -> tuple[int, int]:
        """Size and time of change (ns), now, by asking the store."""
        status = self._where.stat()
        return status.st_size, status.st_mtime_ns

    def readable(self) -> bool:
        """Bytes can be read."""
        return True

    def seekable(self) -> bool:
        """Any place can be read from."""
        return True

    def tell(self) -> int:
        """The place from which is read next."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Read from this place on."""
        self._position = max(0, offset + (0, self._position, self._size)[whence])
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill the buffer, less of it only at the end: Arrow takes what it is given for all there is."""
        target = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(target) and (got := self._read_block(target[filled:])):
            filled += got
        return filled

    def _read_block(self, target: memoryview) -> int:
        """Take what the block at hand, or the next, has for this place; 0 at the end."""
        at = self._position - self._block_start
        if not 0 <= at < len(self._block):
            in_order = at == len(self._block)
            self._ahead = min(2 * self._ahead, _MOST_AHEAD) if in_order else _LEAST_AHEAD
            self._block = self.read_at(self._position, max(len(target), self._ahead))
            self._block_start, at = self._position, 0
        got = min(len(target), len(self._block) - at)
        target[:got] = memoryview(self._block)[at : at + got]
        self._position += got
        return got

    def close(self) -> None:
        """Give up the connection."""
        if not self.closed and self._file is not None:
            self._file.close()
            self._block, self._small = b"", None
        super().close()
