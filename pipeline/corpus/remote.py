"""What URIs of a store name: an object, everything below a prefix, or what matches a glob.

The rules are those of local inputs: sorted by the parts of the key, hidden objects and prefixes are skipped, and so is
what lies in a run directory (a prefix with a `run.json`). `*`, `**` and `[...]` stand in any part of a key; `?` cannot,
since it begins the query of a URI.
"""

import fnmatch
import re
from collections.abc import Iterator

from pipeline.base.errors import InputError
from pipeline.storage import Remote

_MAGIC = re.compile(r"[*[]")
_OURS = ("run.json", "encoding.json")  # a run directory has the one, a directory of shards the other


def expand(where: Remote) -> list[str]:
    """The objects that a URI names, as URIs. Raises `InputError` where it names none or the store cannot be asked."""
    try:
        return [str(found) for found in _expand(where)]
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror or error}") from None


def _expand(where: Remote) -> list[Remote]:
    if where.key and where.is_file():
        return [where]
    magic = _MAGIC.search(where.key)
    if magic is not None:
        if found := list(_matching(where)):
            return found
        raise InputError(f"no object matches {where}: check the glob and the bucket")
    if _is_ours(where):
        raise InputError(f"{where} is a run directory or one of shards: name the corpus, not what was made of it")
    found = _below(where)
    if not found and not Remote(where.base, where.query, "").exists():
        raise InputError(f"{where} cannot be read: the bucket of {where.base} does not exist; check its name")
    if not found:
        raise InputError(
            f"{where} does not exist, or has no objects to read below it (hidden ones and run directories are "
            "skipped): check the key"
        )
    return found


def _below(where: Remote) -> list[Remote]:
    """All objects below a prefix, but hidden ones and those of runs: one question to the store, not one a prefix."""
    children = [child for child in where.children(recursive=True) if not _is_hidden(child.name)]
    ours = [
        child.name.removesuffix(name)
        for child in children
        for name in _OURS
        if child.is_file and f"/{child.name}".endswith(f"/{name}")
    ]
    return [where / child.name for child in children if child.is_file and not child.name.startswith(tuple(ours))]


def _is_ours(where: Remote) -> bool:
    return any((where / name).is_file() for name in _OURS)


def _is_hidden(key: str) -> bool:
    return any(part.startswith(".") for part in key.split("/"))


def _matching(pattern: Remote) -> Iterator[Remote]:
    """The objects that a glob matches, and what is below the prefixes that it matches; a `**` matches objects alone."""
    parts = pattern.key.split("/")
    deep = "**" in parts
    root = Remote(pattern.base, pattern.query, "")
    for key, is_file in sorted({(match.key, is_file) for match, is_file in _glob(root, parts, deep)}):
        if is_file:
            yield root / key
        elif not deep:
            yield from _below(root / key)


def _glob(where: Remote, parts: list[str], deep: bool) -> Iterator[tuple[Remote, bool]]:
    """What is below `where` and matches the parts, as Python's `glob` finds it; with `deep` around run directories."""
    part, *rest = parts
    if not _MAGIC.search(part):
        if rest:
            yield from _glob(where / part, rest, deep)
        elif (where / part).exists():
            yield where / part, (where / part).is_file()
        return
    children = [child for child in where.children() if _fits(child.name, part)]
    if part == "**" and rest:
        yield from _glob(where, rest, deep)
    for child in children:
        found = where / child.name
        if not rest and (child.is_file or part != "**"):
            yield found, child.is_file
        if not child.is_file and (rest or part == "**") and not (deep and _is_ours(found)):
            yield from _glob(found, parts if part == "**" else rest, deep)


def _fits(name: str, part: str) -> bool:
    """Whether a name matches one part of a glob; hidden ones only where the part says so."""
    if name.startswith(".") and not part.startswith("."):
        return False
    return part == "**" or fnmatch.fnmatchcase(name, part)
