"""A file of the corpus: its format and its compression, two independent facts, and how it is opened to read.

Content decides first if it has a mark (gzip, zstd, bzip2, xz, and that of a format). JSON Lines has none, so its name
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
from bpe_pipeline.corpus.formats import AUTO, CorpusFormat, corpus_format, format_named, marked_format
from bpe_pipeline.storage import Location, OpenFile, named, open_file

COMPRESSIONS = ("none", "gzip", "zstd", "bzip2", "xz")
_TEXT = "text"  # where neither content nor name says more

_COMPRESSION_SUFFIXES = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bzip2",
    ".xz": "xz",
}
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

    @property
    def kind(self) -> CorpusFormat:
        """The format."""
        return corpus_format(self.format)

    @property
    def is_plain(self) -> bool:
        """Whether any stretch of its bytes is text."""
        return self.kind.begins_anywhere and self.compression == "none"

    @property
    def is_compressed(self) -> bool:
        """Whether its size is not that of its text."""
        return self.kind.compresses_itself or self.compression != "none"

    def location(self, number: int) -> str:
        """Describe a location: a byte of the file, a byte of the decompressed text, or a row (the first is 0)."""
        word = self.kind.position
        of_text = word == "byte" and self.compression != "none"
        return f"{self.path}, {word} {number}" + (" of the decompressed text" if of_text else "")


class FileSpan(NamedTuple):
    """What to read of a file: parts as its format counts, bytes or row groups, or frames of a compressed file.

    From 0 to the file's size is all of it, in every format.
    """

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


def suffixes_of(name: str) -> tuple[str, str]:
    """Return the suffixes of a name for its format and its compression, in lower case: `a.JSONL.gz` -> .jsonl, .gz."""
    suffixes = ["", *(suffix.lower() for suffix in PurePath(name).suffixes)]
    compressed = suffixes.pop() if suffixes[-1] in _COMPRESSION_SUFFIXES else ""
    return suffixes[-1], compressed


def recognise(path: str, name: str, head: bytes, tail: bytes, requested_format: str = AUTO) -> tuple[str, str]:
    """Return the format and compression of a file by its name, without a URI's query, and its first and last bytes.

    Raises `InputError` if they contradict each other, or the content is certainly neither text nor records.
    """

    def contradiction(named: str, pronoun: str) -> InputError:
        return InputError(f"{path} is named as {named} but does not begin as {pronoun}: restore it, or rename it")

    suffix, compressed = suffixes_of(name)
    compression = compression_marked(head)
    is_named = requested_format != AUTO
    if compression == "none" and compressed and head:
        refuse_other(path, head, is_named=is_named)
        raise contradiction(_COMPRESSION_SUFFIXES[compressed], "such")
    marked = marked_format(head, tail) if compression == "none" else None
    format_ = requested_format
    if not is_named:
        format_ = marked or format_named(suffix) or _TEXT
    kind = corpus_format(format_)
    if compression != "none":
        if kind.compresses_itself:
            raise _compressed_columns(path, kind, compression)
        return format_, compression
    if not is_named and kind.magic and head and not head.startswith(kind.magic):
        refuse_other(path, head)
        raise contradiction(kind.title, "one")
    if not kind.magic:
        refuse_other(path, head, is_named=is_named)
        if marked and corpus_format(marked).compresses_itself:
            what = f"{path} is {corpus_format(marked).title}, not {format_}"
            raise InputError(f"{what}: give --input-format {marked}, or leave it out")
    return format_, compression


def damaged(path: str, action: str, error: Exception) -> InputError:
    """Return the error for a file that an action, with the location, has found damaged."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(f"{path} cannot be {action} ({reason}); restore it, or leave it out")


def _compressed_columns(path: str, kind: CorpusFormat, compression: str) -> InvalidTextError:
    """Return the error for a file of columns in a compressed one: it is read in parts."""
    article = "an" if kind.title[0] in "AEIOU" else "a"
    return InvalidTextError(
        f"{path} is {article} {kind.title} file compressed as a whole with {compression}: decompress it ({kind.title} "
        "compresses its own columns), then name the result"
    )


def refuse_compressed(file: CorpusFile, head: bytes) -> None:
    """Raise `InputError` if the first bytes that a compressed file holds are neither text nor records."""
    if (marked := marked_format(head)) and marked != file.format:
        kind = corpus_format(marked)
        if kind.compresses_itself:
            raise _compressed_columns(file.path, kind, file.compression)
        if not file.by_name:
            raise InvalidTextError(
                f"{file.path} is {kind.title}, compressed with {file.compression}, and not by its name: name it "
                f"{kind.suffixes[0]}, or give --input-format {marked}"
            )
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
