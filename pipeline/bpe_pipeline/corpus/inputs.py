"""What inputs name: a file, everything in a directory, or what matches a glob, on this machine or in a store.

Results are sorted by path. Hidden files and directories are skipped, and so is what is stored in a run directory (with
a `run.json`) or one of shards. `*`, `**`, `[...]` and `{a,b}` may be in any part of a glob; `?` too, but begins a URI's
query. Links without a target are among the results: the listing counts them.
"""

import errno
import fnmatch
import os
import re
import stat
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.files import reading
from bpe_pipeline.storage import Location, Remote, is_uri, named

_MANIFESTS = ("run.json", "encoding.json")  # a run directory has the first, a directory of shards the second
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
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
        if _BRACES.search(name) and not where.exists():
            return [path for alternative in alternatives(name) for path in expand(alternative)]
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


def alternatives(glob: str) -> list[str]:
    """Write out braces as a shell does: `{a,b{c,d}}` -> `a`, `bc`, `bd`, none twice."""
    names = [glob]
    while any(map(_BRACES.search, names)):
        names = list(dict.fromkeys(choice for name in names for choice in _choices(name)))
        if len(names) > _MOST_ALTERNATIVES:
            shown = glob.partition("?")[0]
            raise InputError(f"the braces of {shown} stand for more than {_MOST_ALTERNATIVES:,} names: use a wildcard")
    return names


def _choices(glob: str) -> list[str]:
    """Return what the first innermost braces of a glob stand for; the glob itself if it has none."""
    braces = _BRACES.search(glob)
    if braces is None:
        return [glob]
    return [glob[: braces.start()] + choice + glob[braces.end() :] for choice in braces[1].split(",")]


def without(name: str, paths: Iterable[str], exclude: Iterable[str], used: set[str]) -> Iterator[str]:
    """Yield the files of an input that no glob excludes, and add the globs that exclude some to `used`.

    A glob without a slash is the name of a file or directory below the input, one with a slash a path below the input
    or below the current directory; a directory stands for all that is in it.
    """
    if not exclude:
        yield from paths
        return
    globs: list[tuple[str, list[str], list[str] | None]] = []
    for glob in exclude:
        for written in alternatives(glob):
            parts = [part for part in written.split("/") if part not in ("", ".")]
            in_place = None if len(parts) == 1 and not written.startswith("/") else _components(written)
            globs.append((glob, ["**", *parts] if in_place is None else parts, in_place))
    top = list(takewhile(lambda part: not re.search(r"[*?[{]", part), _components(name)))
    for path in paths:
        parts = _components(path) if is_uri(path) else path.split("/")
        above = takewhile(lambda pair: pair[0] == pair[1], zip(top, parts[:-1], strict=False))
        below = parts[sum(1 for _ in above) :]
        matching = {
            glob
            for glob, pattern, in_place in globs
            if _excludes(pattern, below) or (in_place is not None and _excludes(in_place, parts))
        }
        used |= matching
        if not matching:
            yield path


def _components(name: str) -> list[str]:
    where = named(name, "inputs")
    return [where.base, *where.key.split("/")] if isinstance(where, Remote) else _absolute(str(where)).split("/")


def _excludes(glob: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether a glob matches a path or a directory above it, part by part."""
    if not glob or not parts:
        return not glob
    if glob[0] == "**":
        return any(_excludes(glob[1:], parts[start:]) for start in range(len(parts)))
    return fnmatch.fnmatchcase(parts[0], glob[0]) and _excludes(glob[1:], parts[1:])


def _on_disk(name: str) -> tuple[Sequence[Location], str]:
    """Return the files that a local name means, and what to say if there are none."""
    path = _absolute(name)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - Path's questions hide some errors and raise others
    except OSError as error:
        if _is_magic(Path(), name):
            root = Path("/" if name.startswith("/") else _absolute("."))
            matching = [Path(_absolute(str(file))) for file in _matching(root, name.lstrip("/"))]
            return matching, f"no file matches {name}: check the glob and the directory you are in"
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
    if _is_magic(where, where.key):
        return list(_matching(root, where.key)), f"no object matches {where}: check the glob and the bucket"
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


def _is_dangling(where: Location) -> bool:
    return isinstance(where, Path) and is_dangling(where)


def _is_file(where: Location) -> bool:
    return where.is_file() if isinstance(where, Remote) else os.path.isfile(where)  # noqa: PTH113 - never raises


def _is_directory(where: Location) -> bool:
    return where.is_dir() if isinstance(where, Remote) else os.path.isdir(where)  # noqa: PTH112 - never raises


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
    outputs = tuple(
        child.name.removesuffix(name)
        for child in children
        for name in _MANIFESTS
        if child.is_file and f"/{child.name}".endswith(f"/{name}")
    )
    return [where / child.name for child in children if child.is_file and not child.name.startswith(outputs)]


def _refuse_empty_parts(where: Remote, names: Iterable[str]) -> None:
    """Raise `InputError` for keys with `//`, which pyarrow lists but does not open."""
    for name in names:
        if "" in name.split("/"):
            raise InputError(
                f"{where} has objects whose keys have an empty part ({where.key}/{name}), which cannot be read: copy "
                "them to keys without //, or name the other objects by a glob"
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


def _is_magic(where: Location, name: str) -> bool:
    return re.search(r"[*[]" if isinstance(where, Remote) else r"[*?[]", name) is not None


def _matching(root: Location, pattern: str) -> Iterator[Location]:
    """Yield the files that a glob matches, and those below matching directories; a `**` matches files only."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    for key, is_file in sorted(set(_glob(root, "", parts))):
        if not is_file and "**" not in parts:
            yield from _below(root / key)
        elif is_file and not pattern.endswith(("/", "/.")):  # these name directories
            yield root / key


def _glob(
    root: Location, above: str, parts: Sequence[str], deep: bool = False, passed: frozenset[str] = frozenset()
) -> Iterator[tuple[str, bool]]:
    """Yield the paths below `above` that match, as Python's `glob`, and which are files.

    deep: after a wildcard. passed: the directories through which a `**` came here; a link to one is not followed.
    """
    part, *rest = parts
    if _is_magic(root, part):
        deep = deep or "**" in parts
        if part == "**" and rest:
            yield from _glob(root, above, rest, deep, passed)
        children = _children(root / above.rstrip("/") if above else root, part)
    else:
        where = root / f"{above}{part}"
        is_above = bool(rest and not deep) or _is_directory(where)
        kinds = [False] if is_above else [True] if _is_file(where) or _is_dangling(where) else []
        children = [(part, kind) for kind in kinds]
    for name, is_file in children:
        path = f"{above}{name}"
        if not rest and (is_file or part != "**"):
            yield path, is_file
        if is_file or not (rest or part == "**") or (deep and _is_output_directory(root / path)):
            continue
        if part != "**":
            yield from _glob(root, f"{path}/", rest, deep, passed)
        elif (real := path if isinstance(root, Remote) else os.path.realpath(root / path)) not in passed:
            yield from _glob(root, f"{path}/", parts, deep, passed | {real})


def _children(where: Location, part: str) -> list[tuple[str, bool]]:
    """Return the files and directories that match a part of a glob, and which are files."""

    def matches(name: str) -> bool:
        return (part.startswith(".") or not name.startswith(".")) and fnmatch.fnmatchcase(name, part)

    if isinstance(where, Remote):
        matching = [child for child in where.children() if matches(child.name)]
        _refuse_empty_parts(where, [child.name for child in matching])
        return [*matching]
    try:
        paths = [where / name for name in os.listdir(where) if matches(name)]  # noqa: PTH208 - names, not paths
    except OSError:
        return []  # as Python's `glob`
    kinds = [(path.name, _is_file(path) or _is_dangling(path), _is_directory(path)) for path in paths]
    return [(name, is_file) for name, is_file, is_directory in kinds if is_file or is_directory]
