"""The run directory as a place: choosing it, working on it alone, and removing what is a run's own and nothing else.

What the files in it mean is `pipeline.manifest`'s knowledge.
"""

import contextlib
import fcntl
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from pipeline.atomic import make_directory
from pipeline.errors import RunDirectoryError

_LOCK = ".lock"
_RESULTS = ("merges.parquet", "tokenizer", "report.txt", "report.json")
_OWNED = ("run.json", "counts", "counter.parquet", *_RESULTS, "log.txt")


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
def locked(directory: Path) -> Iterator[None]:
    """Work on a run directory alone; it is made where it is missing, and removed if nothing came of it.

    Raises `RunDirectoryError` while another process works on it. The lock is the system's and dies with its process.
    """
    make_directory(directory)
    try:
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise RunDirectoryError(f"{directory} cannot be written: {error.strerror}; choose another --output") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunDirectoryError(
                f"another process is working on {directory}; wait for it, or choose another --output"
            ) from None
        try:
            yield
        finally:
            if not (directory / "run.json").exists():
                with contextlib.suppress(OSError):
                    (directory / _LOCK).unlink()
                    directory.rmdir()
    finally:
        os.close(descriptor)


def clear(directory: Path) -> None:
    """Remove what a run owns in a directory, and nothing else."""
    for path in [directory / name for name in _OWNED] + _other_tokenizers(directory):
        _remove(path)


def remove_results(directory: Path) -> None:
    """Remove what was learned from the counters: merges, tokenizers, reports."""
    for path in [directory / name for name in _RESULTS] + _other_tokenizers(directory):
        _remove(path)


def _other_tokenizers(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("tokenizer-*") if re.fullmatch(r"tokenizer-[0-9]+", path.name))


def sweep(directory: Path) -> None:
    """Remove what writers left half done when they were killed."""
    for pattern in (".*.partial", ".*.part", "counts/.*.partial", "counts/.*.part", "tokenizer*/.*.partial"):
        for path in directory.glob(pattern):
            _remove(path)


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be removed: {error.strerror}; choose another --output") from None


def refuse_foreign_files(directory: Path) -> None:
    """Raise `RunDirectoryError` where a directory without a run holds files that a run would take for its own."""
    foreign = next((name for name in _OWNED if (directory / name).exists()), None)
    if foreign is not None:
        raise RunDirectoryError(
            f"{directory} holds {foreign} but no run.json, so it may be somebody else's; choose another --output, or "
            "remove it with --overwrite"
        )
