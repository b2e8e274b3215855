"""Open local and remote files: read in order or from any position, and ask whether the file has changed."""

import errno
import io
import os
from typing import TYPE_CHECKING, Any

from pipeline.storage.remote import Remote, RemoteError, one_line_errors

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_LEAST_AHEAD, _MOST_AHEAD = 64 << 10, 8 << 20  # bytes
_SMALL_BYTES = 256 << 10  # objects up to this size are read with one request
_MAX_ATTEMPTS = 3


class LocalFile(io.FileIO):
    """An open local file."""

    def read_at(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from a position; threads may share the file for this."""
        return os.pread(self.fileno(), size, start)

    def state(self) -> tuple[int, int]:
        """Return the current size and modification time (ns)."""
        status = os.fstat(self.fileno())
        return status.st_size, status.st_mtime_ns


class RemoteFile(io.RawIOBase):
    """An open object of a store. Raises `RemoteError`, also through Arrow's readers.

    Each request costs a round trip, so sequential reading doubles the bytes of each request, up to 8 MiB; a seek
    starts small again.
    """

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

    def state(self) -> tuple[int, int]:
        """Return the current size and modification time (ns); asks the store."""
        status = self._where.stat()
        return status.st_size, status.st_mtime_ns

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

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill the buffer, or as much as there is up to the end: Arrow takes a short read for the end."""
        target = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(target) and (count := self._read_block(target[filled:])):
            filled += count
        return filled

    def _read_block(self, target: memoryview) -> int:
        """Copy bytes of the current block, or of the next one, into `target`; return how many, 0 at the end."""
        at = self._position - self._block_start
        if not 0 <= at < len(self._block):
            in_order = at == len(self._block)
            self._ahead = min(2 * self._ahead, _MOST_AHEAD) if in_order else _LEAST_AHEAD
            self._block = self.read_at(self._position, max(len(target), self._ahead))
            self._block_start, at = self._position, 0
        count = min(len(target), len(self._block) - at)
        target[:count] = memoryview(self._block)[at : at + count]
        self._position += count
        return count

    def close(self) -> None:
        """Close the connection."""
        if not self.closed and self._file is not None:
            self._file.close()
            self._block = self._small = b""
        super().close()
