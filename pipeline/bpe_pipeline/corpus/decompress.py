"""Decompression in bounded memory: blocks of a fixed size come out, however much a few bytes may expand to.

zstd by Arrow's streams; the others by the standard library: Arrow does not have xz, and stops at an empty stream of
bzip2 and at zeros behind a member of gzip. Members and frames that follow each other are one text, also with zeros
between those of gzip and xz. What follows bzip2 and is no stream is ignored, as bzip2 does. What is cut short or
damaged is an error with the file and the position.

What a decompressor keeps to look back at, the dictionary of xz and the window of zstd, is held of the budget. The
memory is allocated at once but used as the text grows, so a small file takes little.
"""

import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.corpus.files import CorpusFile, damaged
from bpe_pipeline.corpus.frames import FROM_START, Frame, zstd_frames
from bpe_pipeline.corpus.read_budget import SMALL_BYTES, ReadBudget
from bpe_pipeline.storage import OpenFile

_BLOCK_BYTES = 1 << 20
_USED_AT_ONCE = 16  # of a window, one byte in that many is used before there is any text
_READ_BYTES = 1 << 16  # of bzip2 and gzip: what follows a stream in them is copied
_BZIP2, _GZIP_BITS = b"BZh", 31  # how a stream begins; gzip's header with the largest window
_XZ_OTHER_BYTES = 1 << 20  # next to the dictionary
_XZ_HEAD_BYTES = 1 << 12  # more than the headers before the first block's content
_MOST_ZSTD_BYTES = 128 << 20  # of a window that Arrow's decompressor accepts


def decompress(file: CorpusFile, stream: OpenFile, budget: ReadBudget, frame: Frame = FROM_START) -> Iterator[bytes]:
    """Yield what the compressed file holds from a frame on, in blocks of at most 1 MiB."""
    out, window = frame.text, 0

    def note(size: int) -> None:
        nonlocal window
        window = max(window, size)

    stream.seek(frame.start)
    if file.compression == "xz":
        blocks = _by_lzma(stream, note)
    elif file.compression == "bzip2":
        blocks = _by_bz2(stream)
    elif file.compression == "gzip":
        blocks = _by_zlib(stream)
    else:
        blocks = _zstd_by_arrow(stream, note)
    try:
        for block in blocks:
            out += len(block)
            filled = min(window, max(window // _USED_AT_ONCE, 1 << (out + _BLOCK_BYTES).bit_length()))
            if filled > SMALL_BYTES and not budget.hold("window", filled):
                what = f"{file.location(out)}: the window of {format_bytes(window)}, which the text from here on fills,"
                raise budget.too_large("window", window, what)
            yield block
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise _failure(file, stream, window, out, error) from None


def _failure(file: CorpusFile, stream: OpenFile, window: int, out: int, error: Exception) -> InputError:
    if file.compression == "zstd" and window > _MOST_ZSTD_BYTES:
        return InputError(
            f"{file.path} needs a window of {format_bytes(window)} to be decompressed, and "
            f"{format_bytes(_MOST_ZSTD_BYTES)} is the most for zstd; compress it again, without --long"
        )
    if file.compression == "xz" and "limit" in str(error):
        return InputError(
            f"{file.path}: after {out} bytes of its text there is a block of xz with a larger dictionary than the "
            f"first, for which {format_bytes(window)} of memory were reserved; compress it again"
        )
    at = stream.tell()
    where = f"before its end ({at} bytes)" if at >= file.size else f"before byte {at}"
    cause = f"it is damaged or truncated {where}, after {out} bytes of text"
    return damaged(file.path, f"decompressed as {file.compression}: {cause}", error)


def _zstd_by_arrow(stream: OpenFile, note: Callable[[int], None]) -> Iterator[bytes]:
    import pyarrow as pa

    see = ZstdWindows(note).see
    with pa.CompressedInputStream(pa.PythonFile(_Borrowed(stream, see), mode="r"), "zstd") as decompressed:
        while block := decompressed.read(_BLOCK_BYTES):
            yield block


class _Borrowed(io.RawIOBase):
    """A file for Arrow to read from, which its owner closes; `see` sees what is read."""

    def __init__(self, stream: OpenFile, see: Callable[[Any], None]) -> None:
        self._stream, self._see = stream, see

    def readable(self) -> bool:
        return True

    def readinto(self, block: Any) -> int:
        size: int = self._stream.readinto(block)
        self._see(memoryview(block)[:size])
        return size


class ZstdWindows:
    """Sees the bytes of zstd frames pass and notes the window of each."""

    def __init__(self, note: Callable[[int], None]) -> None:
        self._walk = zstd_frames(lambda frame: note(frame.window))
        self._wanted, self._size = next(self._walk)  # the bytes to look at next
        self._data, self._start = memoryview(b""), 0  # seen, not yet behind what is wanted

    def see(self, data: Any) -> None:
        """Take the next bytes of the file."""
        left = self._data[max(self._wanted - self._start, 0) :]
        self._start += len(self._data) - len(left)
        self._data = memoryview(bytes(left) + data)
        with suppress(ValueError):  # no frame: decoding it fails, and what is wanted never comes
            while (begin := self._wanted - self._start) + self._size <= len(self._data):
                seen, self._wanted = bytes(self._data[begin : begin + self._size]), 1 << 63
                self._wanted, self._size = self._walk.send(seen)


def _by_bz2(stream: OpenFile) -> Iterator[bytes]:
    import bz2

    read = partial(stream.read, _READ_BYTES)
    data = read()
    while data:
        decoder = bz2.BZ2Decompressor()
        yield from _one_stream(decoder, data, read)
        data = decoder.unused_data or read()
        if not _BZIP2.startswith(data[: len(_BZIP2)]):
            return


def _by_zlib(stream: OpenFile) -> Iterator[bytes]:
    read = partial(stream.read, _READ_BYTES)
    data = read()
    while data:
        decoder = zlib.decompressobj(_GZIP_BITS)
        while not decoder.eof:
            if block := decoder.decompress(data or _more(read), _BLOCK_BYTES):
                yield block
            data = decoder.unconsumed_tail
        data = _behind_padding(read, decoder.unused_data)


def _by_lzma(stream: OpenFile, note: Callable[[int], None]) -> Iterator[bytes]:
    read = partial(stream.read, _BLOCK_BYTES)
    data = _behind_padding(read, b"")
    while data:
        decoder, data = _decoder(read, data, note)
        text = _one_stream(decoder, data, read)
        del data  # the first block is not kept while the others are read
        yield from text
        data = _behind_padding(read, decoder.unused_data)


def _one_stream(decoder: Any, data: bytes, read: Callable[[], bytes]) -> Iterator[bytes]:
    """Yield the text of a stream that begins with these bytes; `EOFError` if there are no more before its end."""
    while not decoder.eof:
        if decoder.needs_input and not data:
            data = _more(read)
        block, data = decoder.decompress(data, _BLOCK_BYTES), b""
        if block:
            yield block


def _more(read: Callable[[], bytes]) -> bytes:
    """Read the next bytes of a stream that has not ended."""
    if data := read():
        return data
    raise EOFError("the stream does not end")


def _behind_padding(read: Callable[[], bytes], data: bytes) -> bytes:
    """Return the first bytes of the next stream; none at the end."""
    data = data.lstrip(b"\0")
    while not data and (more := read()):
        data = more.lstrip(b"\0")
    return data


def _decoder(
    read: Callable[[], bytes], data: bytes, note: Callable[[int], None]
) -> tuple[lzma.LZMADecompressor, bytes]:
    """Return a decoder for the xz stream that begins with `data`, and its first bytes: at least all headers."""
    while len(data) < _XZ_HEAD_BYTES and (more := read()):
        data += more
    memory = xz_memory(data)
    note(memory)
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=memory), data


def xz_memory(head: bytes) -> int:
    """Return what decoding the xz stream with these first bytes takes: the least dictionary that fits, and a rest."""
    for memory in ((2 + half << power) + _XZ_OTHER_BYTES for power in range(11, 31) for half in (0, 1)):
        try:
            lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=memory).decompress(head[:_XZ_HEAD_BYTES], 1)
        except lzma.LZMAError as error:
            if "limit" in str(error):
                continue
        return memory
    return (1 << 32) + _XZ_OTHER_BYTES
