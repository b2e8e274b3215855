"""The run directory as a place: choosing it, working on it alone, and removing what is a run's own and nothing else.

What the files in it mean is `pipeline.run.manifest`'s knowledge.
"""

import contextlib
import fcntl
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pipeline.base.errors import RunDirectoryError
from pipeline.storage import Location, Remote, existing, is_uri, lock, named, names_in, remove
from pipeline.storage.atomic import make_directory
from pipeline.storage.scratch import sweep_scratch

_LOCK = ".lock"
_RESULTS = ("merges.parquet", "tokenizer", "report.txt", "report.json", "report.html")
_OTHER_TOKENIZER = re.compile("tokenizer-[0-9]+")
_KEPT_INPUT = re.compile("input-[0-9a-f]{32}")  # a text from standard input
_COUNTS = ("counts", "counter.parquet", "log.txt")
_OWNED = (*_COUNTS, *_RESULTS, "run.json")  # removed in this order: the manifest last
STANDARD_INPUT = "stdin"  # texts that came by standard input; one may be there before there is a run


def new_directory(parent: Path = Path("runs")) -> Path:
    """Make the first free one of `runs/001`, `runs/002`, ...; two commands at once get two."""
    make_directory(parent)
    for number in itertools.count(1):
        directory = parent / f"{number:03d}"
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise RunDirectoryError(f"directory {directory} cannot be made: {error.strerror}; give --output") from None
        return directory
    raise AssertionError("unreachable")


@contextlib.contextmanager
def locked(directory: Location, manifest: str = "run.json") -> Iterator[None]:
    """Work on a run directory alone; it is made where it is missing, and removed if nothing came of it, no manifest.

    Raises `RunDirectoryError` while another process works on it. The lock is the system's and dies with its process;
    in a store it is what `pipeline.storage.lock` can promise.
    """
    make_directory(directory)
    with _held(directory) if isinstance(directory, Remote) else _flocked(directory, manifest):
        yield


def require_ours(directory: Location) -> None:
    """Raise `RunDirectoryError`, before anything is published, where another process took over, as stores allow."""
    if isinstance(directory, Remote):
        lock.require_ours(directory)


@contextlib.contextmanager
def _held(directory: Remote) -> Iterator[None]:
    """Hold the lock in a store. At the end those processes are dead, too, that were still dying when we began."""
    with lock.held(directory):
        try:
            yield
        finally:
            sweep_scratch()


@contextlib.contextmanager
def _flocked(directory: Path, manifest: str) -> Iterator[None]:
    descriptor = _lock_file(directory)
    while descriptor is None:
        make_directory(directory)
        descriptor = _lock_file(directory)
    try:
        try:
            yield
        finally:
            if not (directory / manifest).exists():
                with contextlib.suppress(OSError):
                    (directory / _LOCK).unlink()
                    directory.rmdir()
    finally:
        os.close(descriptor)


def _lock_file(directory: Path) -> int | None:
    """Lock a directory's lock file; None where its last holder removed it meanwhile, so that the lock holds nothing."""
    path = directory / _LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not directory.is_dir():
            return None
        raise RunDirectoryError(f"{directory} cannot be written: {error.strerror}; choose another --output") from None
    holds = False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            holds = os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        raise RunDirectoryError(
            f"another process is working on {directory}; wait for it, or choose another --output"
        ) from None
    finally:
        if not holds:
            os.close(descriptor)
    return descriptor if holds else None


def clear(directory: Location, keep: Sequence[str] = ()) -> None:
    """Remove what a run owns in a directory, and nothing else; of its texts from standard input all but `keep`."""
    _remove_named(directory, _OWNED)
    _remove_inputs(directory, keep)


def clear_counts(directory: Location, keep: Sequence[str] = ()) -> None:
    """Remove what `clear` does, but what was learned, and the manifest, whose place the next one takes."""
    _require_removable([directory / name for name in _OWNED] + other_tokenizers(directory))
    for name in _COUNTS:
        _remove(directory / name)
    _remove_inputs(directory, keep)


def _remove_inputs(directory: Location, keep: Iterable[str]) -> None:
    """Remove texts from standard input, but those that `keep` has by their names, which are those of their content."""
    home = directory / STANDARD_INPUT
    texts = [name for name in _names_in(home) if _KEPT_INPUT.fullmatch(name)]
    kept = {named(path).name for path in keep} if texts else set()
    for name in texts:
        if name not in kept:
            _remove(home / name)


def remove_results(directory: Location) -> None:
    """Remove what was learned from the counters: merges, tokenizers, reports."""
    _remove_named(directory, _RESULTS)


def _remove_named(directory: Location, names: tuple[str, ...]) -> None:
    """Remove what has these names, in their order, and the tokenizers of other sizes; never another run."""
    paths = [*(directory / name for name in names), *other_tokenizers(directory)]
    _require_removable(paths)
    for path in paths:
        _remove(path)


def _require_removable(paths: Sequence[Location]) -> None:
    for path, holds_run in zip(paths, existing([path / "run.json" for path in paths]), strict=True):
        if holds_run:
            raise RunDirectoryError(
                f"{path} holds a run of its own and would be removed; choose another --output, or move it elsewhere"
            )


def other_tokenizers(directory: Location) -> list[Location]:
    """The tokenizers of other sizes than the run's own, in directories such as `tokenizer-8000`."""
    return [directory / name for name in _names_in(directory) if _OTHER_TOKENIZER.fullmatch(name)]


def _names_in(directory: Location) -> list[str]:
    try:
        return names_in(directory)
    except OSError as error:
        raise RunDirectoryError(
            f"{directory} cannot be read: {error.strerror or error}; choose another --output"
        ) from None


def sweep(directory: Location, keep: Iterable[str]) -> None:
    """Remove what was left when commands were killed: half-done files, and texts from standard input but `keep`."""
    inner = [name for name in _names_in(directory) if name == "counts" or name.startswith("tokenizer")]
    for place in (directory, *(directory / name for name in inner)):
        for name in _names_in(place) if isinstance(place, Remote) or place.is_dir() else []:
            if name.startswith(".") and name.endswith((".partial", ".part")):
                _remove(place / name)
    _remove_inputs(directory, keep)
    if isinstance(directory, Remote):
        sweep_scratch()


def _remove(path: Location) -> None:
    try:
        remove(path)
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be removed: {error.strerror}; choose another --output") from None


def refuse_corpus_inside(directory: Location, paths: Iterable[str], what: str = "part of the corpus") -> None:
    """Raise `RunDirectoryError` if a corpus file is stored where the run's own files go: they would replace it.

    paths: absolute ones, or URIs. what: what the paths are, if not a corpus.
    """
    for path, name in inner_names(directory, paths):
        if name in _OWNED or _OTHER_TOKENIZER.fullmatch(name):
            raise RunDirectoryError(
                f"{path} is {what}, but the run's own files go to {directory / name}; choose another --output, or move "
                "it elsewhere"
            )


def inner_names(directory: Location, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each path that is inside the directory, with its first component there, links resolved."""
    real = functools.cache(os.path.realpath)  # a corpus may have a hundred thousand files in one directory
    for path in paths:
        targets = [path, real(path)] if not is_uri(path) and Path(path).is_symlink() else [path]
        for target in targets:
            name = _inner_name(directory, target, real)
            if name:
                yield path, name


def _inner_name(directory: Location, path: str, real: Callable[[str], str]) -> str:
    """Return the first component of a path within the directory, or nothing if it is elsewhere."""
    if isinstance(directory, Remote) != is_uri(path):
        return ""
    if isinstance(directory, Remote):
        where = named(path)
        prefix = f"{directory.key}/" if directory.key else ""
        within = isinstance(where, Remote) and where.base == directory.base and where.key.startswith(prefix)
        return where.key.removeprefix(prefix).split("/")[0] if isinstance(where, Remote) and within else ""
    parent, last = os.path.split(path)
    place, home = Path(real(parent), last), Path(real(str(directory)))
    inner = place.relative_to(home).parts if place.is_relative_to(home) else ()
    return inner[0] if inner else ""


def refuse_foreign_files(directory: Location) -> None:
    """Raise `RunDirectoryError` where a directory without a run holds files that a run would take for its own.

    An empty directory is none: it is what a run leaves that was killed just before its manifest was whole.
    """
    there = _names_in(directory)
    ours = [name for name in there if name in _OWNED or _OTHER_TOKENIZER.fullmatch(name)]
    foreign = next((name for name in ours if _holds_something(directory / name)), None)
    if foreign is None and any(not _KEPT_INPUT.fullmatch(name) for name in _names_in(directory / STANDARD_INPUT)):
        foreign = STANDARD_INPUT
    if foreign is not None:
        raise RunDirectoryError(
            f"{directory} holds {foreign} but no run.json, so it may be somebody else's; choose another --output, or "
            "remove it with --overwrite"
        )


def _holds_something(path: Location) -> bool:
    return bool(_names_in(path)) if isinstance(path, Path) and path.is_dir() else True
