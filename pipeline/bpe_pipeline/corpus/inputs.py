"""What inputs name: a file, everything in a directory, or what matches a glob, on this machine or in a store.

Results are sorted by path. Hidden files and directories are skipped, and so is what is stored in a run directory (with
a `run.json`) or one of shards. `*`, `**`, `[...]` and `{a,b}` may be in any part of a glob; `?` too, but begins a URI's
query. A `**` does not go through links to directories, so that no circle of links matters. Links without a target are
among the results: the listing counts them.
"""

import errno
import os
import re
import stat
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import takewhile
from pathlib import Path

import bracex
from wcmatch import glob

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.files import reading
from bpe_pipeline.storage import Location, Remote, is_uri, named
from bpe_pipeline.storage.remote import Child

_MANIFESTS = ("run.json", "encoding.json")  # a run directory has the first, a directory of shards the second
_MOST_ALTERNATIVES = 1000  # that the braces of one input stand for
_NOT_SAMPLED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


def sample_corpus() -> list[str]:
    """Return the Python files of the running Python's standard library, without its tests and installed packages."""
    root = sysconfig.get_path("stdlib")
    paths = [str(path) for path in _walk(Path(root), set(), _NOT_SAMPLED) if path.suffix == ".py"]
    if not paths:
        raise InputError(f"the sample corpus is missing: no Python files in {root}; name files to train on")
    return paths


def expand(name: str) -> list[str]:
    """Return the files that one input names, as absolute paths or URIs; raise `InputError` if there are none."""
    where = named(name, "inputs")
    shown = str(where) if isinstance(where, Remote) else name
    with reading(shown):
        if "{" in name and (names := alternatives(name)) != [name] and not where.exists():
            return [path for alternative in names for path in expand(alternative)]
        if isinstance(where, Remote):
            files, why_none = _in_store(where, is_prefix=name.partition("?")[0].endswith("/"))
        else:
            files, why_none = _on_disk(str(where) if is_uri(name) else name)
    if not files:
        raise InputError(why_none)
    paths = list(map(str, files))
    for path in paths if isinstance(where, Path) else ():
        _refuse_undecodable(path)
    return paths


def alternatives(pattern: str) -> list[str]:
    """Write out braces as a shell does: `{a,b{c,d}}` -> `a`, `bc`, `bd`, none twice."""
    try:
        return list(dict.fromkeys(bracex.expand(pattern, keep_escapes=True, limit=_MOST_ALTERNATIVES)))
    except bracex.ExpansionLimitException:
        shown = pattern.partition("?")[0]
        raise InputError(
            f"the braces of {shown} stand for more than {_MOST_ALTERNATIVES:,} names: use a wildcard"
        ) from None


def without(name: str, paths: Sequence[str], exclude: Iterable[str], used: set[str]) -> Sequence[str]:
    """Return the files of an input that no glob excludes, and add the globs that exclude some to `used`.

    A glob without a slash is the name of a file or directory below the input, one with a slash a path below the input
    or below the current directory; a directory stands for all that is in it.
    """
    if not exclude:
        return paths
    top = list(takewhile(lambda part: not re.search(r"[*?[{]", part), _components(name)))
    whole = {path: _components(path) if is_uri(path) else path.split("/") for path in paths}
    below = {path: "/".join(parts[_shared(top, parts[:-1]) :]) for path, parts in whole.items()}
    in_place = {path: "/".join(parts) for path, parts in whole.items()}
    excluded = set[str]()
    for pattern in exclude:
        for written in alternatives(pattern):
            parts = [part for part in written.split("/") if part not in ("", ".")]
            if len(parts) == 1 and not written.startswith("/"):
                matching = _excluded(below, ["**", *parts])
            else:
                matching = _excluded(below, parts) | _excluded(in_place, _components(written))
            excluded |= matching
            used |= {pattern} if matching else set()
    return [path for path in paths if path not in excluded]


def _excluded(names: Mapping[str, str], parts: Sequence[str]) -> set[str]:
    """Return the paths whose names, or directories above them, a glob matches."""
    pattern = "/".join(parts)
    matching = {*_globbed(names.values(), [pattern, f"{pattern}/**"], glob.DOTGLOB)}
    return {path for path, name in names.items() if name in matching}


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many first members are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _globbed(names: Iterable[str], patterns: Sequence[str], flags: int = 0) -> list[str]:
    """Return the names that one of the patterns matches."""
    return list(map(str, glob.globfilter(names, patterns, flags=glob.GLOBSTAR | flags)))


def _components(name: str) -> list[str]:
    where = named(name, "inputs")
    if isinstance(where, Remote):
        return [where.base.replace("//", "/"), *where.key.split("/")]
    return _absolute(str(where)).split("/")


def _on_disk(name: str) -> tuple[Sequence[Location], str]:
    """Return the files that a local name means, and what to say if there are none."""
    path = _absolute(name)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - Path's questions hide some errors and raise others
    except OSError as error:
        if glob.is_magic(name):
            return list(_matching_files(name)), f"no file matches {name}: check the glob and the directory you are in"
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return [], f"{name} does not exist: check the spelling and the directory you are in"
        raise
    if stat.S_ISREG(mode):
        return [Path(path)], ""
    if not stat.S_ISDIR(mode):
        return [], f"{name} is neither a regular file nor a directory: save its content to a file and name that"
    return _below(Path(path), refuse=name), (
        f"{name} is a directory without files to read (hidden ones and run directories are skipped): name another"
    )


def _in_store(where: Remote, *, is_prefix: bool) -> tuple[Sequence[Location], str]:
    """Return the objects that a URI means, and what to say if there are none. is_prefix: it ends with a slash."""
    root = replace(where, key="")
    if where.key and not is_prefix and where.is_file() and not where.marks_prefix():
        return [where], ""
    if re.search(r"[*[]", where.key):
        return _matching_objects(where), f"no object matches {where}: check the glob and the bucket"
    objects = _below(where, refuse=str(where))
    if objects or root.exists():
        return objects, (
            f"{where} does not exist, or has no objects to read below it (hidden ones and run directories are "
            "skipped): check the key"
        )
    return [], f"{where} cannot be read: the bucket of {where.base} does not exist; check its name"


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


def _refuse_undecodable(path: str) -> None:
    """Raise `InputError` for a name that is not Unicode: neither `run.json` nor a message could hold it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise InputError(f"the name of {shown} {system.undecodable(path)}") from None


def is_dangling(path: str | Path) -> bool:
    """Return whether a local path is a link that leads to nothing, or in a circle."""
    return os.path.islink(path) and not os.path.exists(path)  # noqa: PTH110, PTH114 - never raise


def _is_file(where: Location) -> bool:
    return where.is_file() if isinstance(where, Remote) else os.path.isfile(where)  # noqa: PTH113 - never raises


def _is_output_directory(where: Location) -> bool:
    return any(_is_file(where / name) for name in _MANIFESTS)


def _below(where: Location, refuse: str = "") -> list[Location]:
    """Return all files below a directory or a prefix. refuse: the name in the error for a directory of ours."""
    if refuse and _is_output_directory(where):
        raise InputError(f"{refuse} is a run directory or one of shards: name the corpus, not what was made of it")
    if isinstance(where, Path):
        return list(_walk(where, set()))
    listed = where.children(recursive=True)
    _refuse_empty_parts(where, [child.name for child in listed if child.is_file])
    children = [child for child in listed if not re.search(r"(^|/)\.", child.name)]
    outputs = tuple(_outputs(children))
    return [where / child.name for child in children if child.is_file and not child.name.startswith(outputs)]


def _outputs(children: Iterable[Child]) -> list[str]:
    """Return the run directories and those of shards among the entries of a prefix, each with a slash at its end."""
    return [
        child.name.removesuffix(name)
        for child in children
        for name in _MANIFESTS
        if child.is_file and f"/{child.name}".endswith(f"/{name}")
    ]


def _refuse_empty_parts(where: Remote, names: Iterable[str]) -> None:
    """Raise `InputError` for keys with `//`, which pyarrow lists but does not open."""
    for name in names:
        if "" in name.split("/"):
            key = f"{where.key}/{name}".lstrip("/")
            raise InputError(
                f"{where} has objects whose keys have an empty part ({key}), which cannot be read: copy them to keys "
                "without //, or name the other objects by a glob"
            )


def _walk(directory: Path, seen: set[str], left_out: Iterable[str] = ()) -> Iterator[Path]:
    """Yield the files in a directory and below, no directory twice, and links that lead to nothing."""
    real = os.path.realpath(directory)
    if real in seen or _is_output_directory(directory):
        return
    seen.add(real)
    with reading(f"directory {directory}"), os.scandir(directory) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.name.startswith(".") or entry.name in left_out:
            continue
        with reading(entry.path):
            try:
                is_directory, is_file = entry.is_dir(), entry.is_file()
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                is_directory = is_file = False
        if is_directory:
            yield from _walk(directory / entry.name, seen, left_out)
        elif is_file or is_dangling(entry.path):
            yield directory / entry.name
        elif os.path.exists(entry.path):  # noqa: PTH110 - it did not vanish
            raise InputError(f"{entry.path} is a pipe, socket or device: move it out of {directory}, or name the files")


def _matching_files(pattern: str) -> Iterator[Path]:
    """Yield the files that a glob matches, and those below matching directories; a `**` matches files only."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    of_directories, deep = pattern.endswith(("/", "/.")), "**" in parts
    fixed = pattern.startswith("/") + sum(1 for _ in takewhile(lambda part: not glob.is_magic(part), parts))
    is_output = cache(lambda directory: _is_output_directory(Path(directory)))
    written = "/" * pattern.startswith("/") + "/".join(parts)
    for name in sorted(set(glob.iglob(written, flags=glob.GLOBSTAR))):
        above, path = name.rstrip("/").split("/")[:-1], Path(_absolute(name))
        if os.path.isdir(path):  # noqa: PTH112 - never raises
            yield from () if deep else _walk(path, set())
        elif of_directories or not (_is_file(path) or is_dangling(path)):
            continue
        elif not (deep and any(is_output("/".join(above[:end])) for end in range(fixed + 1, len(above) + 1))):
            yield path


def _matching_objects(where: Remote) -> list[Location]:
    """Return the objects that a glob matches, and those below matching prefixes, as `_matching_files` does."""
    parts = [part for part in where.key.split("/") if part]
    fixed = sum(1 for _ in takewhile(lambda part: not re.search(r"[*[]", part), parts))
    root, pattern, deep = replace(where, key="/".join(parts[:fixed])), "/".join(parts[fixed:]), "**" in parts
    listed = root.children(recursive=True)
    names = [child.name for child in listed if child.is_file]
    patterns = [pattern] if deep else [pattern, f"{pattern}/**"]
    matching = _globbed(names, patterns)
    _refuse_empty_parts(root, matching)
    exact = set() if deep else {*_globbed(matching, [pattern])}
    outputs = tuple(filter(None, _outputs(listed)))
    left = [name for name in matching if name in exact or not name.startswith(outputs)]
    depth = None if deep else len(parts) - fixed
    return [root / name for name in sorted(left, key=lambda name: "/".join(name.split("/")[:depth]))]
