"""What to read: files, directories and globs become one listing of corpus files, each named once.

The order is the one in which the inputs were given, sorted by path within a directory or a glob, so that a plan made
from the listing is the same every time. A file's size is found by seeking to its end, and a digest of samples of it
tells later whether it is still the same file. This module does not know what is in the files.
"""

import glob
import hashlib
import os
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import InputError

_SAMPLES, _SAMPLE_BYTES = 16, 4096
_NOT_SAMPLED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


@dataclass(frozen=True)
class CorpusFile:
    """One file to read. `digest` is of its size and of up to 16 samples of 4 KiB, so changes in place are noticed."""

    path: str
    size: int
    mtime_ns: int
    digest: str


@dataclass(frozen=True)
class Listing:
    """The files of a corpus in the order to read them, and what deserves a warning: files without a byte in them."""

    files: tuple[CorpusFile, ...]
    empty: tuple[str, ...]


def find_files(inputs: Iterable[str | os.PathLike[str]]) -> Listing:
    """List the files that the inputs name; without inputs, those of the sample corpus.

    Directories are read with everything below them except hidden files and directories; symbolic links to files are
    followed, and those to directories too, each directory once. A file that is named twice, also by another
    spelling or link, is listed where it first appears.
    Raises `InputError` for an input that does not exist or holds no files, and for a corpus without a byte.
    """
    names = [os.fspath(name) for name in inputs]
    if not names:
        return _listing(sample_corpus(), "the sample corpus")
    return _listing([path for name in names for path in _expand(name)], "the corpus")


def sample_corpus() -> list[str]:
    """The Python files of the running Python's own standard library, without its tests and installed packages."""
    root = sysconfig.get_path("stdlib")
    paths = [path for path in _walk(root, set(), _NOT_SAMPLED) if path.endswith(".py")]
    if not paths:
        raise InputError(f"the sample corpus is not there: no Python files in {root}; name files to train on")
    return paths


def file_size(file: BinaryIO) -> int:
    """The size of an open binary file, by seeking to its end; the position is back at the start afterwards."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(0)
    return size


def describe(path: str) -> CorpusFile:
    """Look at a file; raises `InputError` where it cannot be read."""
    try:
        with Path(path).open("rb", buffering=0) as file:
            size = file_size(file)
            digest = hashlib.sha256(str(size).encode())
            # Even steps from the first bytes to the last.
            last = max(size - _SAMPLE_BYTES, 0)
            for offset in sorted({last * i // (_SAMPLES - 1) for i in range(_SAMPLES)}):
                file.seek(offset)
                digest.update(file.read(_SAMPLE_BYTES))
            return CorpusFile(path, size, os.fstat(file.fileno()).st_mtime_ns, digest.hexdigest()[:32])
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _listing(paths: Sequence[str], what: str) -> Listing:
    files, empty, seen = [], [], set()
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        file = describe(path)
        if file.size:
            files.append(file)
        else:
            empty.append(path)
    if not files:
        raise InputError(
            f"{what} is empty: {empty[0]} has no bytes"
            if len(empty) == 1
            else f"{what} is empty: none of its {len(empty)} files has a byte"
        )
    return Listing(tuple(files), tuple(empty))


def _expand(name: str) -> list[str]:
    """The files that one input names."""
    path = Path(name)
    if path.is_dir():
        found = list(_walk(name, set()))
        if not found:
            raise InputError(f"{name} is a directory without files to read (hidden ones are skipped)")
        return found
    if path.exists():
        if not path.is_file():
            raise InputError(f"{name} is neither a regular file nor a directory")
        return [name]
    if not glob.has_magic(name):
        raise InputError(f"{name} does not exist")
    found = []
    for match in sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - an absolute glob is not for Path.glob
        if Path(match).is_file():
            found.append(match)
        elif "**" not in name and Path(match).is_dir():
            found += _walk(match, set())
    if not found:
        raise InputError(f"no file matches {name}")
    return found


def _walk(directory: str, seen: set[str], left_out: Iterable[str] = ()) -> Iterator[str]:
    """The files in a directory and below, sorted by path, hidden ones and broken links left out, no directory twice."""
    real = os.path.realpath(directory)
    if real in seen:
        return
    seen.add(real)
    try:
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"directory {directory} cannot be read: {error.strerror or error}") from None
    for entry in listed:
        if entry.name.startswith(".") or entry.name in left_out:
            continue
        if entry.is_dir():
            yield from _walk(entry.path, seen, left_out)
        elif entry.is_file():
            yield entry.path
