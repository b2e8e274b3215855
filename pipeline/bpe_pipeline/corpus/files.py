"""A file of the corpus: its format and its compression, two independent facts, and how it is opened to read.

Content decides first if it has a mark (Parquet, Arrow, gzip, zstd, bzip2, xz). JSON Lines has none, so its name
decides. A file whose name contradicts its content, or that is no text at all, is an error: it is never read as text.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from bpe_pipeline.base.errors import InputError, InvalidTextError, os_error_as
from bpe_pipeline.corpus.contents import refuse_other
from bpe_pipeline.storage import Location, OpenFile, named, open_file

WHOLE_FORMATS = ("json", "csv")  # of an extension: a file is one chunk, and its locations are rows
BATCH_FORMATS = ("parquet", "arrow")  # of columns
FORMATS = ("text", "lines", "jsonl", *BATCH_FORMATS, *WHOLE_FORMATS)
COMPRESSIONS = ("none", "gzip", "zstd", "bzip2", "xz")
AUTO = "auto"

_COMPRESSION_SUFFIXES = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bzip2",
    ".xz": "xz",
}
_FORMAT_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonlines": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
_PARQUET = b"PAR1"
ARROW_FILE, _ARROW_STREAM = b"ARROW1", b"\xff\xff\xff\xff"  # the second: and the length of the schema
_NAMES = {"parquet": "Parquet", "arrow": "Arrow"}
_PARQUET_START = _PARQUET + b"\x15"  # and the header of a page
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # the first block, or the end if there is none
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 0x50 to 0x5f


@dataclass(frozen=True)
class FileType:
    """What the options say of all files: their format, or `auto` where each file shows its own.

    text_field: the field of a record that is its text; empty: an extension reads whole records. keeps_mark: as that of
    `CorpusFile`.
    """

    format: str = AUTO
    text_field: str = "text"
    keeps_mark: bool = False


@dataclass(frozen=True)
class CorpusFile:
    """One file to read: its absolute path, links kept, or URI; a digest of its size and of samples.

    ctime_ns: when the file or its attributes changed; 0: not known. by_name: whether its format was named, so that
    nothing is concluded from its content. keeps_mark: whether a byte order mark at the start of its lines is text, as
    for tokenizers' trainers.
    """

    path: str
    size: int
    mtime_ns: int
    digest: str
    format: str = "text"
    compression: str = "none"
    ctime_ns: int = 0
    by_name: bool = False
    keeps_mark: bool = False

    def location(self, number: int) -> str:
        """Describe a location: a byte of the file, a byte of the decompressed text, or a row (the first is 0)."""
        if self.format in (*BATCH_FORMATS, *WHOLE_FORMATS):
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


def recognise(path: str, name: str, head: bytes, tail: bytes, requested_format: str = AUTO) -> tuple[str, str]:
    """Return the format and compression of a file by its name, without a URI's query, and its first and last bytes.

    Raises `InputError` if they contradict each other, or the content is certainly neither text nor records.
    """

    def contradiction(named: str, pronoun: str) -> InputError:
        return InputError(f"{path} is named as {named} but does not begin as {pronoun}: restore it, or rename it")

    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    by_name = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSION_SUFFIXES else ""
    compression = compression_marked(head)
    is_named = requested_format != AUTO
    if compression == "none" and by_name and head:
        refuse_other(path, head, is_named=is_named)
        raise contradiction(_COMPRESSION_SUFFIXES[by_name], "such")
    format_ = requested_format
    if format_ == AUTO:
        format_ = _FORMAT_SUFFIXES.get(suffixes[-1], "text") if suffixes else "text"
        if compression == "none":
            marked = format_marked(head, tail)
            if marked == "text" and format_ in BATCH_FORMATS and head and not head.startswith(_PARQUET):
                refuse_other(path, head)
                raise contradiction(_NAMES[format_], "one")
            format_ = format_ if marked == "text" else marked
    if format_ in BATCH_FORMATS and compression != "none":
        raise compressed_columns(path, format_, compression)
    if format_ not in BATCH_FORMATS and compression == "none":
        refuse_other(path, head, is_named=is_named)
        if (marked := format_marked(head, tail)) != "text":
            raise InputError(
                f"{path} is {_NAMES[marked]}, not {format_}: give --input-format {marked}, or leave it out"
            )
    return format_, compression


def format_marked(head: bytes, tail: bytes) -> str:
    """Return the format of columns that the first and last bytes of a file mark, or text."""
    if head.startswith(_PARQUET) and (tail.endswith(_PARQUET) or head.startswith(_PARQUET_START)):
        return "parquet"
    is_stream = head.startswith(_ARROW_STREAM) and int.from_bytes(head[4:8], "little", signed=True) > 0
    return "arrow" if head.startswith(ARROW_FILE + b"\0\0") or is_stream else "text"


def damaged(path: str, action: str, error: Exception) -> InputError:
    """Return the error for a file that an action, with the location, has found damaged."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(f"{path} cannot be {action} ({reason}); restore it, or leave it out")


def compressed_columns(path: str, format_: str, compression: str) -> InvalidTextError:
    """Return the error for a file of columns in a compressed one: it is read in parts."""
    return InvalidTextError(
        f"{path} is {'a Parquet' if format_ == 'parquet' else 'an Arrow'} file compressed as a whole with "
        f"{compression}: decompress it ({_NAMES[format_]} compresses its own columns), then name the result"
    )


def refuse_compressed(file: CorpusFile, head: bytes) -> None:
    """Raise `InputError` if the first bytes that a compressed file holds are neither text nor records."""
    if (format_ := format_marked(head, b"")) != "text":
        raise compressed_columns(file.path, format_, file.compression)
    if (inner := compression_marked(head)) != "none":
        raise InvalidTextError(
            f"{file.path} holds {inner} in {file.compression}: decompress it once, then name the result, or leave it "
            "out"
        )
    refuse_other(file.path, head, file.compression, is_named=file.by_name)


def compression_marked(head: bytes) -> str:
    """Return the compression that the first bytes of a file mark, or none."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == _ZSTD_SKIPPABLE and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    if head.startswith(b"BZh") and head[4:10] in _BZIP2_BLOCKS and head[3:4] in b"123456789":
        return "bzip2"
    return "xz" if head.startswith(b"\xfd7zXZ\0") else "none"
