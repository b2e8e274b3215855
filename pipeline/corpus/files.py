"""A file of the corpus: its format and its compression, two independent facts, and how it is opened to read.

Content decides first if it has a mark (Parquet, gzip, zstd, bzip2, xz). JSON Lines has none, so its name decides. A
file whose name contradicts its content is an error, so that a damaged file is never read as text.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from pipeline.base.errors import InputError, os_error_as
from pipeline.storage import Location, OpenFile, named, open_file

WHOLE_FORMATS = ("json", "csv", "arrow")  # of chat data alone, a file in one go; the first: one array
FORMATS = ("text", "lines", "jsonl", "parquet", *WHOLE_FORMATS)
COMPRESSIONS = ("none", "gzip", "zstd", "bzip2", "xz")
AUTO = "auto"

_COMPRESSION_SUFFIXES = {
    ".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bzip2", ".xz": "xz",
}  # fmt: skip
_FORMAT_SUFFIXES = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".jsonlines": "jsonl", ".json": "jsonl",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
_PARQUET = b"PAR1"
_PARQUET_START = _PARQUET + b"\x15"  # and the header of a page
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # the first block, or the end if there is none
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 0x50 to 0x5f


@dataclass(frozen=True)
class FileType:
    """A format and a compression: of a file, or from the options, where `auto` leaves them to each file."""

    format: str = AUTO
    compression: str = AUTO


@dataclass(frozen=True)
class CorpusFile:
    """One file to read: its absolute path, links kept, or URI; a digest of its size and of samples.

    ctime_ns: when the file or its attributes changed; 0: not known. identity: what it is called where work depends on
    it, if not by its path.
    """

    path: str
    size: int
    mtime_ns: int
    digest: str
    format: str = "text"
    compression: str = "none"
    ctime_ns: int = 0
    identity: str = ""

    def location(self, number: int) -> str:
        """Describe a location: a byte of the file, a byte of the decompressed text, or a row (the first is 0)."""
        if self.format in ("parquet", *WHOLE_FORMATS):
            return f"{self.path}, row {number}"
        return f"{self.path}, byte {number}" + ("" if self.compression == "none" else " of the decompressed text")


class FileSpan(NamedTuple):
    """What to read of a file: bytes of text or of whole lines, row groups of Parquet, frames of a compressed file."""

    file: CorpusFile
    start: int
    stop: int


def reading(
    name: str, remedy: str = "check the name and its permissions, or leave it out"
) -> AbstractContextManager[None]:
    """Raise `InputError` with the remedy where the system or a store refuses."""
    return os_error_as(InputError, f"{name.encode(errors='backslashreplace').decode()} cannot be read", remedy)


@contextmanager
def opened(path: str | Location, *remedy: str) -> Iterator[OpenFile]:
    """Open a file to read bytes; raise `InputError` with the remedy if opening or reading fails."""
    with reading(str(path), *remedy), open_file(named(path)) as file:
        yield file


def file_size(file: OpenFile) -> int:
    """Return the size of an open binary file by seeking to its end, and seek back to its start."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(0)
    return size


def recognise(path: str, name: str, head: bytes, tail: bytes, asked: FileType) -> FileType:
    """Return what a file is by its name, without a URI's query, and its first and last bytes.

    Raises `InputError` if they contradict each other.
    """

    def contradiction(named: str, pronoun: str, option: str) -> InputError:
        return InputError(
            f"{path} is named as {named} but does not begin as {pronoun}: it is damaged, or rename it, or say what it "
            f"is with {option}"
        )

    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    by_name = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSION_SUFFIXES else ""
    compression = compression_marked(head) if asked.compression == AUTO else asked.compression
    if asked.compression == AUTO and compression == "none" and by_name and head:
        raise contradiction(_COMPRESSION_SUFFIXES[by_name], "such", "--compression")
    format_ = asked.format
    if format_ == AUTO:
        format_ = _FORMAT_SUFFIXES.get(suffixes[-1], "text") if suffixes else "text"
        if compression == "none" and head.startswith(_PARQUET):
            if tail.endswith(_PARQUET) or starts_as_parquet(head):
                format_ = "parquet"
        elif format_ == "parquet" and compression == "none" and head:
            raise contradiction("Parquet", "one", "--input-format")
    if format_ == "parquet" and compression != "none":
        raise compressed_parquet(path, compression)
    return FileType(format_, compression)


def damaged(path: str, action: str, error: Exception) -> InputError:
    """Return the error for a file that an action, with the location, has found damaged."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(f"{path} cannot be {action} ({reason}); restore it, or leave it out")


def compressed_parquet(path: str, compression: str) -> InputError:
    """Return the error for a Parquet file in a compressed one: it can only be read from its end."""
    return InputError(
        f"{path} is a Parquet file compressed as a whole with {compression}: decompress it (Parquet compresses its "
        "own pages), then name the result"
    )


def starts_as_parquet(head: bytes) -> bool:
    """Return whether decompressed content is a Parquet file rather than text."""
    return head.startswith(_PARQUET_START)


def compression_marked(head: bytes) -> str:
    """Return the compression that the first bytes of a file mark, or none."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == _ZSTD_SKIPPABLE and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    if head.startswith(b"BZh") and head[4:10] in _BZIP2_BLOCKS and head[3:4] in b"123456789":
        return "bzip2"
    return "xz" if head.startswith(b"\xfd7zXZ\0") else "none"
