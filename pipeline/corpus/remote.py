"""What URIs of a store name: an object, everything below a prefix, or what matches a glob.

The rules are those of local inputs: results are sorted by the parts of the key; hidden objects and prefixes are
skipped, and so is what is stored in a run directory (a prefix with a `run.json`). `*`, `**` and `[...]` may be in any
part of a key; `?` cannot, since it begins the query of a URI.
"""

import fnmatch
import re
from collections.abc import Iterator

from pipeline.base.errors import InputError
from pipeline.storage import Remote

MANIFESTS = ("run.json", "encoding.json")  # a run directory has the first, a directory of shards the second
_MAGIC = re.compile(r"[*[]")


def output_error(name: object) -> InputError:
    """Return the error for an input that is not a corpus but was made of one."""
    return InputError(f"{name} is a run directory or one of shards: name the corpus, not what was made of it")


def expand(where: Remote) -> list[str]:
    """Return the objects that a URI names, as URIs. Raises `InputError` if there are none or the store fails."""
    try:
        return [str(found) for found in _expand(where)]
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror or error}") from None


def _expand(where: Remote) -> list[Remote]:
    if where.key and where.is_file():
        return [where]
    if _MAGIC.search(where.key):
        if found := list(_matching(where)):
            return found
        raise InputError(f"no object matches {where}: check the glob and the bucket")
    if _is_output_directory(where):
        raise output_error(where)
    if found := _below(where):
        return found
    if not Remote(where.base, where.query, "").exists():
        raise InputError(f"{where} cannot be read: the bucket of {where.base} does not exist; check its name")
    raise InputError(
        f"{where} does not exist, or has no objects to read below it (hidden ones and run directories are "
        "skipped): check the key"
    )


def _below(where: Remote) -> list[Remote]:
    """Return all objects below a prefix except hidden ones and those of runs, with one request to the store."""
    children = [child for child in where.children(recursive=True) if not re.search(r"(^|/)\.", child.name)]
    outputs = tuple(
        child.name.removesuffix(name)
        for child in children
        for name in MANIFESTS
        if child.is_file and f"/{child.name}".endswith(f"/{name}")
    )
    return [where / child.name for child in children if child.is_file and not child.name.startswith(outputs)]


def _is_output_directory(where: Remote) -> bool:
    return any((where / name).is_file() for name in MANIFESTS)


def _matching(pattern: Remote) -> Iterator[Remote]:
    """Yield the objects that a glob matches, and those below matching prefixes; a `**` matches objects only."""
    parts = pattern.key.split("/")
    deep = "**" in parts
    root = Remote(pattern.base, pattern.query, "")
    for key, is_file in sorted({(match.key, is_file) for match, is_file in _glob(root, parts, deep)}):
        if is_file:
            yield root / key
        elif not deep:
            yield from _below(root / key)


def _glob(where: Remote, parts: list[str], deep: bool) -> Iterator[tuple[Remote, bool]]:
    """Yield what is below `where` and matches the parts, as Python's `glob`; with `deep` except in run directories."""
    part, *rest = parts
    if not _MAGIC.search(part):
        if rest:
            yield from _glob(where / part, rest, deep)
        elif (where / part).exists():
            yield where / part, (where / part).is_file()
        return
    children = [child for child in where.children() if _matches(child.name, part)]
    if part == "**" and rest:
        yield from _glob(where, rest, deep)
    for child in children:
        found = where / child.name
        if not rest and (child.is_file or part != "**"):
            yield found, child.is_file
        if not child.is_file and (rest or part == "**") and not (deep and _is_output_directory(found)):
            yield from _glob(found, parts if part == "**" else rest, deep)


def _matches(name: str, part: str) -> bool:
    """Return whether a name matches one part of a glob; hidden ones only if the part starts with a dot."""
    if name.startswith(".") and not part.startswith("."):
        return False
    return part == "**" or fnmatch.fnmatchcase(name, part)
