"""Copies of standard input as corpus files: they are identified by content, wherever their directory is moved."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pipeline.corpus.files import CorpusFile
from pipeline.storage import Location, named

DIRECTORY = "stdin"
COPY = re.compile("input-([0-9a-f]{32})")


def home_in(directory: Location) -> Location:
    """Return where copies of standard input are in an owned directory."""
    return (directory.absolute() if isinstance(directory, Path) else directory) / DIRECTORY


def copy_in(directory: Location, file: CorpusFile) -> CorpusFile:
    """Return a file, whose path is relative to its directory, with the path of its copy now, or raise `ValueError`."""
    name = file.path.removeprefix(f"{DIRECTORY}/")
    if not COPY.fullmatch(name):
        raise ValueError(f"{file.path!r} is not the name of a copy of standard input")
    return replace(file, path=str(home_in(directory) / name), identity=file.path)


def with_identities(directory: Location, files: Iterable[CorpusFile]) -> tuple[CorpusFile, ...]:
    """Return the files; copies of standard input in the directory are identified by content, wherever it is moved."""
    home = home_in(directory)

    def identified(file: CorpusFile) -> CorpusFile:
        path = named(file.path)
        if not COPY.fullmatch(path.name) or path.parent != home:
            return file
        return replace(file, identity=f"{DIRECTORY}/{path.name}")

    return tuple(map(identified, files))
