"""A file of the corpus, and how it is opened to read."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.base.errors import InputError, os_error_as
from pipeline.corpus.formats import WHOLE_FORMATS
from pipeline.storage import OpenFile, named, open_file


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
def opened(path: str, *remedy: str) -> Iterator[OpenFile]:
    """Open a file of a listing to read bytes; raise `InputError` with the remedy if opening or reading fails."""
    with reading(path, *remedy), open_file(named(path)) as file:
        yield file


def file_size(file: OpenFile) -> int:
    """Return the size of an open binary file by seeking to its end, and seek back to its start."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(0)
    return size
