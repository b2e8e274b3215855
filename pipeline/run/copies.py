"""Copies of standard input as corpus files: they are identified by content, wherever their directory is moved."""

import re
from dataclasses import replace
from pathlib import Path

from pipeline.corpus.files import CorpusFile
from pipeline.storage import Location, named

DIRECTORY = "stdin"
COPY = re.compile("input-([0-9a-f]{32})")


def home_in(directory: Location) -> Location:
    """Return where copies of standard input are in an owned directory."""
    return (directory.absolute() if isinstance(directory, Path) else directory) / DIRECTORY


def located(directory: Location, file: CorpusFile) -> CorpusFile:
    """Return a file that a manifest lists: of a copy with the path that it has now. `ValueError` for no copy's name."""
    if not file.identity:
        return file
    name = file.identity.removeprefix(f"{DIRECTORY}/")
    if not COPY.fullmatch(name):
        raise ValueError(f"{file.identity!r} is not the name of a copy of standard input")
    return replace(file, path=str(home_in(directory) / name))


def identified(directory: Location, file: CorpusFile) -> CorpusFile:
    """Return a listed file: of a copy in the directory with what it is called wherever that is moved."""
    path = named(file.path)
    is_copy = COPY.fullmatch(path.name) and path.parent == home_in(directory)
    return replace(file, identity=f"{DIRECTORY}/{path.name}") if is_copy else file
