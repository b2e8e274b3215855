"""What to read: files, directories and globs become one listing of corpus files, each named once.

The order is that of the inputs, sorted by path within a directory or a glob, so a plan made from the listing is the
same every time. A digest of samples of a file shows later whether it is still the same.
"""

import errno
import glob
import hashlib
import os
import stat
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipeline.base.errors import InputError
from pipeline.corpus import remote
from pipeline.corpus.formats import FileType, recognise
from pipeline.storage import OpenFile, Remote, each, is_uri, named, open_file

_SAMPLES, _SAMPLE_BYTES = 16, 4096
_CHECK = "check the name and its permissions, or leave it out"
_NOT_SAMPLED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


@dataclass(frozen=True)
class CorpusFile:
    """One file to read: its absolute path, links kept, or URI; a digest of its size and of samples."""

    path: str
    size: int
    mtime_ns: int
    digest: str
    format: str = "text"
    compression: str = "none"

    def location(self, number: int) -> str:
        """Describe a location: a byte of the file, a byte of the decompressed text, or a row (the first is 0)."""
        if self.format == "parquet":
            return f"{self.path}, row {number}"
        return f"{self.path}, byte {number}" + ("" if self.compression == "none" else " of the decompressed text")


@dataclass(frozen=True)
class Listing:
    """The files of a corpus in the order to read them, and the paths of those without a byte."""

    files: tuple[CorpusFile, ...]
    empty: tuple[str, ...]


def find_files(
    inputs: Iterable[str | os.PathLike[str]] | None,
    asked: FileType = FileType(),  # noqa: B008 - a constant
    *,
    may_be_empty: bool = False,
) -> Listing:
    """List the files that the inputs name; for None, those of the sample corpus.

    Hidden files, run directories and what is below them are skipped in directories; links are followed. A file that is
    named twice, also by another spelling or link, is listed where it first appears. Raises `InputError` for an input
    that names no file or cannot be read, a corpus without a byte (unless it `may_be_empty`), and as `describe` does.
    """
    names = None if inputs is None else [os.fspath(name) for name in inputs]
    if names == []:
        raise InputError("no inputs: name files, directories or globs")
    try:
        paths = sample_corpus() if names is None else [path for name in names for path in _expand(name)]
    except RecursionError:
        raise InputError("the directories of the inputs are nested too deeply: name the inner ones") from None
    different: dict[str, str] = {}
    for path in paths:
        different.setdefault(path if is_uri(path) else os.path.realpath(path), path)
    described = partial(describe, asked=asked)
    files = list(each(described, list(different.values()), remote=any(map(is_uri, paths))))
    empty = [file.path for file in files if not file.size]
    if len(empty) == len(files) and not may_be_empty:
        reason = f"none of its {len(empty)} files has a byte" if len(empty) > 1 else f"{empty[0]} has no bytes"
        raise InputError(f"the {'sample ' if names is None else ''}corpus is empty: {reason}; name files with text")
    if names is None:
        empty = []  # the library has empty modules, which the user did not choose
    return Listing(tuple(file for file in files if file.size), tuple(empty))


def sample_corpus() -> list[str]:
    """Return the Python files of the running Python's standard library, without its tests and installed packages."""
    root = sysconfig.get_path("stdlib")
    paths = [path for path in _walk(root, set(), _NOT_SAMPLED) if path.endswith(".py")]
    if not paths:
        raise InputError(f"the sample corpus is missing: no Python files in {root}; name files to train on")
    return paths


@contextmanager
def opened(path: str, remedy: str = _CHECK) -> Iterator[OpenFile]:
    """Open a file of a listing to read bytes; raise `InputError` with the remedy if opening or reading fails."""
    with _reading(path, remedy), open_file(named(path)) as file:
        yield file


def file_size(file: OpenFile) -> int:
    """Return the size of an open binary file by seeking to its end, and seek back to its start."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(0)
    return size


def describe(path: str, asked: FileType = FileType()) -> CorpusFile:  # noqa: B008 - a constant
    """Describe a file; raise `InputError` if it cannot be read or its name contradicts its content."""
    with opened(path) as file:
        size = file_size(file)
        last = max(size - _SAMPLE_BYTES, 0)
        offsets = sorted({last * i // (_SAMPLES - 1) for i in range(_SAMPLES)})  # even steps from first to last
        samples = [file.read_at(offset, _SAMPLE_BYTES) for offset in offsets]
        digest = hashlib.sha256(str(size).encode() + b"".join(samples)).hexdigest()[:32]
        found = recognise(path, samples[0], samples[-1], asked)
        return CorpusFile(path, size, file.state()[1], digest, found.format, found.compression)


def _expand(name: str) -> list[str]:
    """Return the files that one input names, as absolute paths or URIs."""
    if not name:
        raise InputError("an input is empty (''): name a file, a directory or a glob")
    if "\0" in name:
        raise InputError(f"the input {name!r} holds a NUL character, as no path does: name a file, directory or glob")
    _refuse_undecodable(name)
    if is_uri(name):
        where = named(name)
        if isinstance(where, Remote):
            return remote.expand(where)
        name = str(where)
    path = _absolute(name)
    with _reading(name):
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116 - Path's questions hide some errors and raise others
        except OSError as error:
            if glob.has_magic(name):
                return _expand_glob(name)
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                raise InputError(f"{name} does not exist: check the spelling and the directory you are in") from None
            raise
    if stat.S_ISREG(mode):
        return [path]
    if not stat.S_ISDIR(mode):
        raise InputError(f"{name} is neither a regular file nor a directory: save its content to a file and name that")
    if _is_run_directory(path):
        raise remote.output_error(name)
    if found := list(_walk(path, set())):
        return found
    raise InputError(
        f"{name} is a directory without files to read (hidden ones and run directories are skipped): name another"
    )


def _expand_glob(name: str) -> list[str]:
    found: list[str] = []
    deep = "**" in name  # matches files only, and none in a run directory
    for match in sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - an absolute glob is not for Path.glob
        path = _absolute(match)
        if os.path.isfile(path):  # noqa: PTH113 - false for what cannot be read
            if not deep or not _in_run_directory(match, name):
                _refuse_undecodable(path)
                found.append(path)
        elif not deep and os.path.isdir(path):  # noqa: PTH112
            found += _walk(path, set())
    if not found:
        raise InputError(f"no file matches {name}: check the glob and the directory you are in")
    return found


def _absolute(name: str) -> str:
    """Return the absolute path of a name, links kept except before a `..`, where they decide what it means."""
    try:
        if ".." in Path(name).parts:
            parent, last = os.path.split(name)
            return os.path.realpath(name) if last in ("", "..") else os.path.join(os.path.realpath(parent), last)  # noqa: PTH118
        return os.path.abspath(name)  # noqa: PTH100 - keeps links
    except OSError as error:
        raise InputError(
            f"{name} cannot be found: the working directory is gone ({error.strerror}); change to another"
        ) from None


@contextmanager
def _reading(name: str, remedy: str = _CHECK) -> Iterator[None]:
    """Raise `InputError` with the remedy where the system or a store refuses."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}; {remedy}") from None


def _refuse_undecodable(path: str) -> None:
    """Raise `InputError` for a name that is not UTF-8: neither `run.json` nor a message could hold it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        try:
            shown = os.fsencode(path).decode(errors="backslashreplace")
        except UnicodeEncodeError:
            shown = ascii(path)
        raise InputError(f"the name of {shown} is not valid UTF-8: rename it") from None


def _is_run_directory(directory: str) -> bool:
    return any(os.path.isfile(os.path.join(directory, name)) for name in remote.MANIFESTS)  # noqa: PTH113, PTH118


def _in_run_directory(match: str, pattern: str) -> bool:
    """Return whether a glob went through a run directory to reach a file."""
    wild = next(i for i, part in enumerate(Path(pattern).parts) if glob.has_magic(part))
    parts = Path(match).parts
    return any(_is_run_directory(str(Path(*parts[:end]))) for end in range(wild + 1, len(parts)))


def _walk(directory: str, seen: set[str], left_out: Iterable[str] = ()) -> Iterator[str]:
    """Yield the files in a directory and below, sorted by path, no directory twice.

    Hidden files and directories, broken and looping links, and run directories are skipped.
    """
    real = os.path.realpath(directory)
    if real in seen or _is_run_directory(directory):
        return
    seen.add(real)
    with _reading(f"directory {directory}"), os.scandir(directory) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.name.startswith(".") or entry.name in left_out:
            continue
        with _reading(entry.path):
            try:
                is_directory, is_file = entry.is_dir(), entry.is_file()
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                continue
        if is_directory or is_file:
            _refuse_undecodable(entry.path)
        if is_directory:
            yield from _walk(entry.path, seen, left_out)
        elif is_file:
            yield entry.path
