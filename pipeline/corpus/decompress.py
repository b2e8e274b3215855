"""Decompressing in bounded memory: blocks of a fixed size come out, however much a few bytes may expand to.

What the decompressor keeps to look back at (`windows`) is held of the worker's room, as far as it is filled.

gzip, zstd and bzip2 by Arrow's streams, xz by the standard library, which Arrow does not have. Members and frames that
follow each other are one text. What is cut short or damaged is an error that names the file and the place.
"""

import io
import lzma
from collections.abc import Callable, Iterator
from typing import Any

from pipeline.base.errors import InputError
from pipeline.base.units import format_bytes
from pipeline.corpus.files import CorpusFile
from pipeline.corpus.room import SMALL_BYTES, Room
from pipeline.corpus.windows import MOST_ZSTD_BYTES, ZstdWindows, xz_memory
from pipeline.storage import OpenFile

_BLOCK_BYTES = 1 << 20
_XZ_HEAD_BYTES = 1 << 12
_PART = "window"
_USED_AT_ONCE = 16  # what part of a dictionary is used before there is any text
_ARROW_NAMES = {"gzip": "gzip", "zstd": "zstd", "bzip2": "bz2"}


def decompress(file: CorpusFile, stream: OpenFile, room: Room) -> Iterator[bytes]:
    """What the compressed file holds, in blocks of at most 1 MiB.

    Raises `InputError` where it is damaged, `TrainingError` where its window outgrows the room.
    """
    out = window = 0

    def noted(size: int) -> None:
        nonlocal window
        window = max(window, size)

    if file.compression == "xz":
        blocks = _by_lzma(stream, noted)
    else:
        blocks = _by_arrow(stream, _ARROW_NAMES[file.compression], noted)
    while True:
        try:
            block = next(blocks, b"")
        except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
            if file.compression == "zstd" and window > MOST_ZSTD_BYTES:
                raise _window_too_large(file, window) from None
            if file.compression == "xz" and "limit" in str(error):
                raise _larger_dictionary(file, window, out) from None
            raise _damaged(file, stream, out, error) from None
        if not block:
            return
        out += len(block)
        filled = min(window, max(window // _USED_AT_ONCE, 1 << (out + _BLOCK_BYTES).bit_length()))
        if filled > SMALL_BYTES and not room.hold(_PART, filled):
            raise room.too_small(
                f"{file.place(out)}: the window of {format_bytes(window)}, of which more is filled from here on,",
                _PART,
                window,
            )
        yield block


def _damaged(file: CorpusFile, stream: OpenFile, out: int, error: Exception) -> InputError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    at = stream.tell()
    where = f"before its end ({at} bytes)" if at >= file.size else f"before byte {at}"
    return InputError(
        f"{file.path} cannot be decompressed as {file.compression}: it is damaged or cut short {where}, after {out} "
        f"bytes of text ({reason}); restore it, or leave it out"
    )


def _window_too_large(file: CorpusFile, window: int) -> InputError:
    return InputError(
        f"{file.path} needs a window of {format_bytes(window)} to be decompressed, and {format_bytes(MOST_ZSTD_BYTES)} "
        "is the most for zstd; compress it anew, without --long"
    )


def _larger_dictionary(file: CorpusFile, memory: int, out: int) -> InputError:
    """Of a block of an xz stream that needs more than the first one, by which memory was set aside."""
    return InputError(
        f"{file.path}: behind {out} bytes of its text there is a block of xz with a larger dictionary than the first, "
        f"by which {format_bytes(memory)} of memory were set aside for it; compress it anew"
    )


def _by_arrow(stream: OpenFile, name: str, noted: Callable[[int], None]) -> Iterator[bytes]:
    import pyarrow as pa

    windows = ZstdWindows()

    def see(data: Any) -> None:
        if name == "zstd":
            windows.see(data)
            noted(windows.window_bytes)

    with pa.CompressedInputStream(pa.PythonFile(_Lent(stream, see), mode="r"), name) as decompressed:
        while block := decompressed.read(_BLOCK_BYTES):
            yield block


class _Lent(io.RawIOBase):
    """A file for Arrow to read from, and to close without its owner noticing; `see` sees what is read."""

    def __init__(self, stream: OpenFile, see: Callable[[Any], None]) -> None:
        self._stream, self._see = stream, see

    def readable(self) -> bool:
        return True

    def readinto(self, block: Any) -> int:
        got: int = self._stream.readinto(block)
        self._see(memoryview(block)[:got])
        return got


def _by_lzma(stream: OpenFile, noted: Callable[[int], None]) -> Iterator[bytes]:
    decoder, data = _decoder(stream, b"", noted)
    while True:
        if decoder.eof:  # another stream may follow, after padding of zeros
            data = decoder.unused_data.lstrip(b"\0")
            while not data and (more := stream.read(_BLOCK_BYTES)):
                data = more.lstrip(b"\0")
            if not data:
                return
            decoder, data = _decoder(stream, data, noted)
        elif decoder.needs_input and not data:
            data = stream.read(_BLOCK_BYTES)
            if not data:
                raise EOFError("the stream does not end")
        block = decoder.decompress(data, _BLOCK_BYTES)
        data = b""
        if block:
            yield block


def _decoder(stream: OpenFile, data: bytes, noted: Callable[[int], None]) -> tuple[lzma.LZMADecompressor, bytes]:
    """A decoder for the xz stream that begins with `data`, and what it begins with, read further where it is short."""
    while len(data) < _XZ_HEAD_BYTES and (more := stream.read(_BLOCK_BYTES)):
        data += more
    memory = xz_memory(data)
    noted(memory)
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=memory), data
