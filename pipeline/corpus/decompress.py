"""Decompressing in bounded memory: blocks of a fixed size come out, however much a few bytes may expand to.

gzip, zstd and bzip2 by Arrow's streams, xz by the standard library, which Arrow does not have. Members and frames that
follow each other are one text. What is cut short or damaged is an error that names the file and the place.
"""

import io
import lzma
from collections.abc import Iterator
from typing import Any

from pipeline.corpus.files import CorpusFile
from pipeline.errors import InputError
from pipeline.storage import OpenFile

_BLOCK_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 256 << 20  # of its dictionary; `xz -9` makes one of 64 MiB
_ARROW_NAMES = {"gzip": "gzip", "zstd": "zstd", "bzip2": "bz2"}


def decompress(file: CorpusFile, stream: OpenFile) -> Iterator[bytes]:
    """What the compressed file holds, in blocks of at most 1 MiB. Raises `InputError` where it is damaged."""
    out = 0
    blocks = _by_lzma(stream) if file.compression == "xz" else _by_arrow(stream, _ARROW_NAMES[file.compression])
    while True:
        try:
            block = next(blocks, b"")
        except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
            raise _damaged(file, stream, out, error) from None
        if not block:
            return
        out += len(block)
        yield block


def _damaged(file: CorpusFile, stream: OpenFile, out: int, error: Exception) -> InputError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    at = stream.tell()
    where = f"before its end ({at} bytes)" if at >= file.size else f"before byte {at}"
    return InputError(
        f"{file.path} cannot be decompressed as {file.compression}: it is damaged or cut short {where}, after {out} "
        f"bytes of text ({reason}); restore it, or leave it out"
    )


def _by_arrow(stream: OpenFile, name: str) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.PythonFile(_Lent(stream), mode="r"), name) as decompressed:
        while block := decompressed.read(_BLOCK_BYTES):
            yield block


class _Lent(io.RawIOBase):
    """A file for Arrow to read from, and to close without its owner noticing."""

    def __init__(self, stream: OpenFile) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, block: Any) -> int:
        got: int = self._stream.readinto(block)
        return got


def _by_lzma(stream: OpenFile) -> Iterator[bytes]:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
    data = b""
    while True:
        if decoder.eof:  # another stream may follow, after padding of zeros
            data = decoder.unused_data.lstrip(b"\0")
            while not data and (more := stream.read(_BLOCK_BYTES)):
                data = more.lstrip(b"\0")
            if not data:
                return
            decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
        elif decoder.needs_input:
            data = stream.read(_BLOCK_BYTES)
            if not data:
                raise EOFError("the stream does not end")
        block = decoder.decompress(data, _BLOCK_BYTES)
        data = b""
        if block:
            yield block
