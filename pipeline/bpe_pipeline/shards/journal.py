"""The journal of shards that are written in the order of the corpus: how far they are, and which of them are finished.

A line for each entry, in JSON with its digest; it is written when what it speaks of is on disk, and is on disk itself
before anything that it speaks of is changed.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.run.directory import fingerprint

_REMEDY = "free disk space, and run the same command again"


class Journal:
    """The journal at a path; a context manager. of: what its encoding depends on; entries of another are dropped."""

    def __init__(self, path: Path, of: str) -> None:
        self.path, self._of = path, of
        self._leaving = ExitStack()

    def __enter__(self) -> "Journal":
        with os_error_as(RunDirectoryError, f"{self.path} cannot be written", _REMEDY):
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            self._file = self._leaving.enter_context(os.fdopen(os.open(self.path, flags, 0o666), "r+b"))
            system.flush(self.path.parent)
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.close()

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield all entries; the rest of the file, behind the last one that is whole, is cut off."""
        self._file.seek(0)
        at = 0
        for entry, size in _entries(self._file, self._of):
            at += size
            yield entry
        self._file.seek(at)
        self._file.truncate()

    def clear(self) -> None:
        """Drop all entries, also on disk: what they speak of is written from scratch."""
        with os_error_as(RunDirectoryError, f"{self.path} cannot be written", _REMEDY):
            self._file.truncate(0)
            self._file.seek(0)
            os.fsync(self._file.fileno())

    def add(self, entry: dict[str, Any]) -> None:
        """Add an entry, which is on disk then. Raises `RunDirectoryError`."""
        with os_error_as(RunDirectoryError, f"{self.path} cannot be written", _REMEDY):
            self._file.write(json.dumps([fingerprint(self._of, entry), entry]).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())


def entries_of(path: Path, of: str) -> list[dict[str, Any]]:
    """Return the entries of a journal that another process may be writing; none if there is no journal."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        return [entry for entry, _ in _entries(file, of)]
    return []


def _entries(file: IO[bytes], of: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the entries and the bytes of each, up to the first line that is not whole or is of something else."""
    for line in file:
        try:
            digest, entry = json.loads(line)
        except (ValueError, TypeError):
            return
        if not isinstance(entry, dict) or digest != fingerprint(of, entry):
            return
        yield entry, len(line)
