"""What to read: files, directories and globs become one listing of corpus files, each named once.

The order is the one in which the inputs were given, sorted by path within a directory or a glob, so that a plan made
from the listing is the same every time. A file's size is found by seeking to its end, and a digest of samples of it
tells later whether it is still the same file. What is in a file is only looked at as far as its format and compression
go (`formats`).
"""

import errno
import glob
import hashlib
import os
import stat
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pipeline.base.errors import InputError
from pipeline.corpus import remote
from pipeline.corpus.formats import Asked, Kind, place_in, recognise
from pipeline.storage import LocalFile, OpenFile, Remote, each, is_uri, named
from pipeline.storage import open_file as open_location

_SAMPLES, _SAMPLE_BYTES = 16, 4096
_OURS = ("run.json", "encoding.json")  # a run directory has the one, a directory of shards the other
_NOT_SAMPLED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


@dataclass(frozen=True)
class CorpusFile:
    """One file to read. `path` is absolute, links kept, or a URI.

    `digest` is of its size and of up to 16 samples of 4 KiB, so changes in place are noticed. `format` and
    `compression` are of those that `formats` knows.
    """

    path: str
    size: int
    mtime_ns: int
    digest: str
    format: str = "text"
    compression: str = "none"

    def place(self, number: int) -> str:
        """A byte of its text, or a row, for people."""
        return place_in(self.path, Kind(self.format, self.compression), number)


@dataclass(frozen=True)
class Listing:
    """The files of a corpus in the order to read them, and what deserves a warning: files without a byte in them."""

    files: tuple[CorpusFile, ...]
    empty: tuple[str, ...]


def find_files(
    inputs: Iterable[str | os.PathLike[str]] | None,
    asked: Asked = Asked(),  # noqa: B008 - a constant
    *,
    may_be_empty: bool = False,
) -> Listing:
    """List the files that the inputs name; for None, those of the sample corpus.

    Directories are read with everything below them except hidden files and directories; symbolic links to files are
    followed, and those to directories too, each directory once. A directory that holds a `run.json` is a run directory
    of ours and is left out with everything below it. URIs are read so too (`pipeline.corpus.remote`), those of `file://`
    as local paths. A file that is named twice, also by another
    spelling or link, is listed where it first appears.
    Raises `InputError` for an input that does not exist, cannot be read, holds no files or has a name that is not
    UTF-8, for a corpus without a byte (unless it `may_be_empty`), and for a file that is not what its name says.
    """
    if inputs is None:
        listing = _listing(sample_corpus(), asked)
        _require_text(listing, "the sample corpus")
        return replace(listing, empty=())  # a library has modules without a line, and nobody chose them
    names = [os.fspath(name) for name in inputs]
    if not names:
        raise InputError("no inputs: name files, directories or globs")
    try:
        listing = _listing([path for name in names for path in _expand(name)], asked)
    except RecursionError:
        raise InputError("the directories of the inputs are nested too deeply: name the inner ones") from None
    if not may_be_empty:
        _require_text(listing, "the corpus")
    return listing


def sample_corpus() -> list[str]:
    """The Python files of the running Python's own standard library, without its tests and installed packages."""
    root = sysconfig.get_path("stdlib")
    paths = [path for path in _walk(root, set(), _NOT_SAMPLED) if path.endswith(".py")]
    if not paths:
        raise InputError(f"the sample corpus is not there: no Python files in {root}; name files to train on")
    return paths


def open_file(path: str) -> OpenFile:
    """Open a file of a listing for reading bytes. Raises OSError."""
    return open_location(named(path)) if is_uri(path) else LocalFile(path)


def file_size(file: OpenFile) -> int:
    """The size of an open binary file, by seeking to its end; the position is back at the start afterwards."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(0)
    return size


def describe(path: str, asked: Asked = Asked()) -> CorpusFile:  # noqa: B008 - a constant
    """Look at a file; raises `InputError` where it cannot be read or is not what its name says."""
    try:
        with open_file(path) as file:
            size = file_size(file)
            digest = hashlib.sha256(str(size).encode())
            # Even steps from the first bytes to the last.
            last = max(size - _SAMPLE_BYTES, 0)
            samples = []
            for offset in sorted({last * i // (_SAMPLES - 1) for i in range(_SAMPLES)}):
                samples.append(file.read_at(offset, _SAMPLE_BYTES))
                digest.update(samples[-1])
            kind = recognise(path, samples[0], samples[-1], asked)
            return CorpusFile(path, size, file.state()[1], digest.hexdigest()[:32], kind.format, kind.compression)
    except OSError as error:
        raise _unreadable(path, error) from None


def _listing(paths: Sequence[str], asked: Asked) -> Listing:
    files, empty, seen = [], [], set()
    different = []
    for path in paths:
        real = path if is_uri(path) else os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            different.append(path)
    for file in each(partial(describe, asked=asked), different, remote=any(map(is_uri, different))):
        if file.size:
            files.append(file)
        else:
            empty.append(file.path)
    return Listing(tuple(files), tuple(empty))


def _require_text(listing: Listing, what: str) -> None:
    empty = listing.empty
    if not listing.files:
        raise InputError(
            f"{what} is empty: {empty[0]} has no bytes"
            if len(empty) == 1
            else f"{what} is empty: none of its {len(empty)} files has a byte"
        )


def _expand(name: str) -> list[str]:
    """The files that one input names, as absolute paths or URIs."""
    if not name:
        raise InputError("an input is empty (''): name a file, a directory or a glob")
    if "\0" in name:
        raise InputError(f"the input {name!r} holds a NUL character, which no path has: name a file, directory or glob")
    _refuse_undecodable(name)
    if is_uri(name):
        where = named(name)
        if isinstance(where, Remote):
            return remote.expand(where)
        name = str(where)
    path = _absolute(name)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - Path's questions hide some errors and raise others
    except OSError as error:
        if glob.has_magic(name):
            return _expand_glob(name)
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise InputError(f"{name} does not exist: check the spelling and the directory you are in") from None
        raise _unreadable(name, error) from None
    if stat.S_ISDIR(mode):
        if _is_run_directory(path):
            raise InputError(f"{name} is a run directory or one of shards: name the corpus, not what was made of it")
        found = list(_walk(path, set()))
        if not found:
            raise InputError(
                f"{name} is a directory without files to read (hidden ones and run directories are skipped): "
                "name another"
            )
        return found
    if not stat.S_ISREG(mode):
        raise InputError(f"{name} is neither a regular file nor a directory: save its content to a file and name that")
    return [path]


def _expand_glob(name: str) -> list[str]:
    found: list[str] = []
    for match in sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - an absolute glob is not for Path.glob
        path = _absolute(match)
        if os.path.isfile(path):  # noqa: PTH113 - quiet about what cannot be looked at
            if "**" not in name or not _in_run_directory(match, name):
                _refuse_undecodable(path)
                found.append(path)
        elif "**" not in name and os.path.isdir(path):  # noqa: PTH112
            found += _walk(path, set())
    if not found:
        raise InputError(f"no file matches {name}: check the glob and the directory you are in")
    return found


def _absolute(name: str) -> str:
    """The absolute path of a name, links kept except before a `..`, where they decide what it means."""
    try:
        if ".." in Path(name).parts:
            parent, last = os.path.split(name)
            return os.path.realpath(name) if last in ("", "..") else os.path.join(os.path.realpath(parent), last)  # noqa: PTH118
        return os.path.abspath(name)  # noqa: PTH100 - keeps links
    except OSError as error:
        raise InputError(
            f"{name} cannot be found: the working directory is gone ({error.strerror}); change to another"
        ) from None


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(
        f"{name} cannot be read: {error.strerror or error}; check the name and its permissions, or leave it out"
    )


def _refuse_undecodable(path: str) -> None:
    """Raise `InputError` for a name that is not UTF-8: neither `run.json` nor a message could hold it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="backslashreplace") if _from_system(path) else ascii(path)
        raise InputError(f"the name of {shown} is not valid UTF-8: rename it") from None


def _from_system(path: str) -> bool:
    return not any("\ud800" <= character < "\udc80" or "\udcff" < character <= "\udfff" for character in path)


def _is_run_directory(directory: str) -> bool:
    return any(os.path.isfile(os.path.join(directory, name)) for name in _OURS)  # noqa: PTH113, PTH118


def _in_run_directory(match: str, pattern: str) -> bool:
    """Whether a glob went through a run directory on its way to a file."""
    wild = next(i for i, part in enumerate(Path(pattern).parts) if glob.has_magic(part))
    parts = Path(match).parts
    return any(_is_run_directory(str(Path(*parts[:end]))) for end in range(wild + 1, len(parts)))


def _walk(directory: str, seen: set[str], left_out: Iterable[str] = ()) -> Iterator[str]:
    """The files in a directory and below, sorted by path, no directory twice.

    Left out are hidden files and directories, broken and looping links, and run directories.
    """
    real = os.path.realpath(directory)
    if real in seen or _is_run_directory(directory):
        return
    seen.add(real)
    try:
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise _unreadable(f"directory {directory}", error) from None
    for entry in listed:
        if entry.name.startswith(".") or entry.name in left_out:
            continue
        try:
            is_directory, is_file = entry.is_dir(), entry.is_file()
        except OSError as error:
            if error.errno == errno.ELOOP:
                continue
            raise _unreadable(entry.path, error) from None
        if is_directory or is_file:
            _refuse_undecodable(entry.path)
        if is_directory:
            yield from _walk(entry.path, seen, left_out)
        elif is_file:
            yield entry.path
