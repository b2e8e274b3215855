"""An owned directory: a run's, or one of shards. It is locked, has a manifest, and deletes only what that lists.

A command writes under *reserved* names only (`counts/`, ...), and refuses to start where other people's files or the
corpus have such names, links resolved. A file that the manifest lists stays if a link leads to its directory.
"""

import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpe_pipeline import __version__
from bpe_pipeline.base.errors import OtherKindError, PipelineError, RunDirectoryError, UsageError, os_error_as
from bpe_pipeline.storage import Location, Remote, existing, is_uri, lock, named, read_json, remove, scratch
from bpe_pipeline.storage import names_in as stored_names
from bpe_pipeline.storage.atomic import json_text, make_directory, write_whole

# What a directory with this manifest is, for other kinds that are asked to work in it.
HOLDS = {
    "run.json": "a run",
    "encoding.json": "a directory of shards",
    "sweep.json": "a sweep",
    "made-from.json": "an extended or pruned tokenizer",
}
LOG = "log.txt"
LOG_OF_PART: re.Pattern[str] = re.compile("log-([0-9]+)-of-([0-9]+)\\.txt")
MERGES_SO_FAR = "merges-so-far.parquet"  # of a merging that has not ended
RESULTS = ("merges.parquet", MERGES_SO_FAR, "report.txt", "report.json", "report.html")
COUNTS = "counts"  # the directory of the counters of chunks
KEY_DIGITS = 16  # of the key of what made a file, in its name: the file is complete if it exists
_OF_RUN = (*RESULTS, COUNTS, "counter.parquet", LOG)


def fingerprint(*parts: object) -> str:
    """Return a digest of JSON values: 32 hexadecimal digits, the same on every machine."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def fingerprints(parts: Sequence[object], last: Iterable[object]) -> Iterator[str]:
    """Yield `fingerprint(*parts, one)` of each of many values; the parts, of which there are some, are read once."""
    encode = json.JSONEncoder(sort_keys=True).encode
    begun = hashlib.sha256(f"{encode(parts)[:-1]}, ".encode())
    for one in last:
        digest = begun.copy()
        digest.update(f"{encode(one)}]".encode())
        yield digest.hexdigest()[:32]


def new_directory() -> Path:
    """Make and return the first free one of `runs/001`, `runs/002`, ...; two commands at once get two."""
    make_directory(Path("runs"))
    for directory in (Path("runs", f"{number:03d}") for number in itertools.count(1)):
        refused = os_error_as(RunDirectoryError, f"directory {directory} cannot be made", "give --output")
        with refused, contextlib.suppress(FileExistsError):
            directory.mkdir()
            break
    return directory


@dataclass(frozen=True)
class Kind:
    """One kind of owned directory; reserved: the names at its top that commands write."""

    manifest: str
    reserved: re.Pattern[str]
    format_version: int


_RUN_NAMES = [*map(re.escape, _OF_RUN), LOG_OF_PART.pattern, "tokenizer(-[0-9]+)?"]
RUN: Kind = Kind("run.json", re.compile("|".join(_RUN_NAMES)), format_version=1)


@dataclass(frozen=True)
class Directory:
    """A directory that one command at a time works in."""

    location: Location
    kind: Kind

    def __str__(self) -> str:
        return str(self.location)

    def __truediv__(self, name: str) -> Location:
        return self.location / name

    @contextlib.contextmanager
    def locked(self, part: str = "") -> Iterator[None]:
        """Work in the directory alone, or as a part; make it, and remove it if it has no manifest at the end.

        Raises `RunDirectoryError` while another process works in it alone: see `bpe_pipeline.storage.lock`.
        """
        with contextlib.ExitStack() as leaving:
            if part:
                make_directory(self.location)
                lock.refuse_locked(self.location)
            else:
                leaving.enter_context(lock.held(self.location))
            if isinstance(self.location, Remote):
                leaving.callback(scratch.sweep)  # of processes that were still dying when we began
            else:
                leaving.callback(self._remove_unused, self.location, part)
                if not part:
                    leaving.enter_context(_still_there(self.location))
            self._refuse_other_kinds()
            yield

    def _refuse_other_kinds(self) -> None:
        """Raise `RunDirectoryError` if another kind's manifest is here and ours is not: files would be mixed up."""
        ours, *others = existing([self / name for name in (self.kind.manifest, *HOLDS)])
        for (name, what), there in zip(HOLDS.items(), others, strict=True):
            if there and not ours:
                raise RunDirectoryError(f"{self} is {what} ({name}); choose another --output")
        home = self.location.absolute() if isinstance(self.location, Path) else self.location
        if not ours and RUN.reserved.fullmatch(home.name) and (home.parent / RUN.manifest).exists():
            raise RunDirectoryError(f"{self} belongs to the run {home.parent}; choose another --output")

    def _remove_unused(self, location: Path, part: str) -> None:
        if not (location / self.kind.manifest).exists():
            with contextlib.suppress(OSError):
                for name in [self.log_of_part(part).name] if part else [lock.LOCK, lock.LOCKED_BY]:
                    remove(location / name)
                location.rmdir()

    def log_of_part(self, part: str) -> Location:
        """Return where a part, `I/N`, writes what happens; the next command that works alone takes it."""
        return self / f"log-{part.replace('/', '-of-')}.txt"

    def require_lock(self) -> None:
        """Raise `RunDirectoryError`, before anything is published, if this process has lost its `.locked-by`."""
        lock.require_ours(self.location)

    def write_manifest(self, document: dict[str, Any], *, absent: bool = False) -> bool:
        """Write the manifest with its format version and digest, whole or not at all; return whether it was written.

        absent: write it only if there is none, also if another process does so at the same time.
        """
        written_by = {"format_version": self.kind.format_version, "written_by": f"bpe-pipeline {__version__}"}
        document = written_by | document
        document["digest"] = fingerprint(document)
        self.require_lock()
        if absent:
            return lock.create(self / self.kind.manifest, json_text(document))
        write_whole(self / self.kind.manifest, json_text(document))
        return True

    def read_manifest(self) -> dict[str, Any] | None:
        """Return what the manifest says, or None; `RunDirectoryError` if it was altered or is of another format."""
        path = self / self.kind.manifest
        try:
            document = read_json(path)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise OtherKindError(f"{self} is a file; name a directory") from None
        except ValueError as error:
            raise RunDirectoryError(f"{path} cannot be read ({error}); start again with --overwrite") from None
        values: dict[str, Any] = document if isinstance(document, dict) else {}
        if (version := values.get("format_version")) != self.kind.format_version:
            raise OtherKindError(
                f"{path} is of format {version!r}, this release reads {self.kind.format_version}; use the release that "
                "wrote it, or start again with --overwrite"
            )
        with self.damage():
            if values.pop("digest", None) != fingerprint(values):
                raise ValueError("it was altered after it was written")
        return values

    @contextlib.contextmanager
    def damage(self) -> Iterator[None]:
        """Raise what the block finds wrong with the manifest's values as one `RunDirectoryError`."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, UsageError) as error:
            path, reason = self / self.kind.manifest, f"{error} is missing" if isinstance(error, KeyError) else error
            raise RunDirectoryError(f"{path} is damaged ({reason}); start again with --overwrite") from None

    def remove(self, names: Iterable[str]) -> None:
        """Delete these files that the manifest lists, and directories then empty; what is in a linked one stays."""
        for parent, listed in self._by_parent(names).items():
            for name in self.names_in(parent):
                if name in listed:
                    self._remove(parent / name)
            if parent != self.location and isinstance(parent, Path):
                with contextlib.suppress(OSError):
                    parent.rmdir()

    def remove_partial(self, names: Iterable[str], endings: tuple[str, ...] = (".partial", ".part")) -> None:
        """Delete what killed writers of these files left, `.NAME.*` with one of the endings; a living part's stay."""
        for parent, listed in self._by_parent(names).items():
            for name in self.names_in(parent):
                if name.startswith(".") and name.endswith(endings):
                    stems = itertools.accumulate(name.lstrip(".").split("."), "{}.{}".format)
                    path = parent / name
                    is_written = isinstance(path, Path) and scratch.may_be_written(path)
                    if not is_written and not listed.isdisjoint(stems):
                        self._remove(path)
        if isinstance(self.location, Remote):
            scratch.sweep()

    def _by_parent(self, names: Iterable[str]) -> dict[Location, set[str]]:
        """Group relative paths by directory, without directories that are links or outside this one."""
        grouped: dict[str, set[str]] = defaultdict(set)
        for name in names:
            parent, _, last = name.rpartition("/")
            grouped[parent].add(last)
        return {
            self.location / parent if parent else self.location: names_there
            for parent, names_there in grouped.items()
            if not self._leads_elsewhere(parent)
        }

    def _leads_elsewhere(self, name: str) -> bool:
        """Return whether a path in the directory is another one when links and `..` are resolved."""
        if isinstance(self.location, Remote):
            return ".." in name.split("/")
        return (self.location / name).resolve() != self.location.resolve() / name

    def _remove(self, path: Location) -> None:
        if isinstance(path, Path) and not path.is_file() and not path.is_symlink():
            return  # we write files
        with os_error_as(RunDirectoryError, f"{path} cannot be removed", "choose another --output"):
            remove(path)

    def names_in(self, where: Location) -> list[str]:
        """List the names in a directory inside this one; none if it is missing."""
        refused = os_error_as(RunDirectoryError, f"{where} cannot be read", "choose another --output")
        with refused, contextlib.suppress(NotADirectoryError):
            return stored_names(where)
        return []

    def parts_that_ran(self) -> list[tuple[int, int]]:
        """List the parts whose logs are here, as I and N."""
        return [
            (int(index), int(count)) for name in self._logs_of_parts() for index, count in LOG_OF_PART.findall(name)
        ]

    def take_logs_of_parts(self) -> Iterator[bytes]:
        """Yield the logs of parts, and delete them."""
        names = self._logs_of_parts()
        yield from ((self / name).read_bytes() for name in names)
        self.remove(names)

    def _logs_of_parts(self) -> list[str]:
        """List the logs of parts, of which links and what is no regular file are foreign."""
        names = [name for name in self.names_in(self.location) if LOG_OF_PART.fullmatch(name)]
        return [name for name in names if not isinstance(path := self / name, Path) or _is_file(path)]

    def refuse_corpus_inside(self, paths: Iterable[str], what: str = "part of the corpus") -> None:
        """Raise `RunDirectoryError` if one of these absolute paths or URIs has a reserved name here, links resolved."""
        for path, name in self._inner_names(paths):
            if name == self.kind.manifest or self.kind.reserved.fullmatch(name):
                raise RunDirectoryError(
                    f"{path} is {what}, but this command writes to {self / name}; choose another --output, or move "
                    "it elsewhere"
                )

    def _inner_names(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield each path that is inside the directory, with its first component there."""
        if isinstance(self.location, Remote):
            prefix = f"{self.location.key}/" if self.location.key else ""
            for path in filter(is_uri, paths):
                where = named(path)
                if isinstance(where, Remote) and where.base == self.location.base and where.key.startswith(prefix):
                    yield path, where.key.removeprefix(prefix).split("/")[0]
            return
        real = functools.cache(os.path.realpath)  # a corpus may have a hundred thousand files in one directory
        homes = [(Path(real(str(self / name))), name) for name in ("", *self._linked_directories())]
        for path in paths:
            if is_uri(path):
                continue
            for target in [path, real(path)] if Path(path).is_symlink() else [path]:
                parent, last = os.path.split(target)
                resolved = Path(real(parent), last)
                for home, name in homes:
                    if resolved != home and resolved.is_relative_to(home):
                        yield path, name or resolved.relative_to(home).parts[0]

    def _linked_directories(self) -> list[str]:
        """List the reserved names at the top that are links to directories: what is written there is elsewhere."""
        if isinstance(self.location, Remote):
            return []
        links = [name for name in self._reserved_names() if (self.location / name).is_symlink()]
        return [name for name in links if (self.location / name).is_dir()]

    def _reserved_names(self) -> Iterator[str]:
        return filter(self.kind.reserved.fullmatch, self.names_in(self.location))

    def refuse_linked_directories(self, names: Container[str] | None = None) -> None:
        """Raise `RunDirectoryError` if work that writes these names, or all, would replace files through a link."""
        for name in self._linked_directories():
            if (names is None or name in names) and self._holds_something(self / name):
                raise RunDirectoryError(
                    f"{self / name} is a link to a directory elsewhere, whose files this command would replace; remove "
                    "the link, or choose another --output"
                )

    def refuse_replaced(self, new: Iterable[Location]) -> None:
        """Raise `RunDirectoryError` if a file that is not ours is in a linked directory where a new one is written."""
        links = set(self._linked_directories())
        for path in new if links else ():
            if path.parent.name in links and path.exists():
                raise RunDirectoryError(
                    f"{path} was not written by this run, and {path.parent} is a link to a directory elsewhere; remove "
                    "the link, or choose another --output"
                )

    def refuse_foreign_files(self) -> None:
        """Raise `RunDirectoryError` if the directory, which has no manifest, holds files with reserved names."""
        for name in self._reserved_names():
            if LOG_OF_PART.fullmatch(name):  # of a part that was killed before it had a plan
                continue
            if self._holds_something(self / name):  # a run that is killed before its manifest is whole leaves none
                if (self / self.kind.manifest).exists():  # that of another part, since we looked
                    return
                raise RunDirectoryError(
                    f"{self} holds {name} but no {self.kind.manifest}, so it may be somebody else's; choose another "
                    "--output, or replace it with --overwrite"
                )

    def _holds_something(self, path: Location) -> bool:
        return bool(self.names_in(path)) if isinstance(path, Path) and path.is_dir() else True

    def separate_log(self, log: Location) -> None:
        """Make a log a file of its own if its name is a link: it is appended to, which would change another file."""
        if isinstance(log, Path) and log.exists() and not log.is_file():
            raise RunDirectoryError(f"{log} is not a regular file; remove it, or choose another --output")
        if isinstance(log, Path) and (log.is_symlink() or (log.is_file() and log.stat().st_nlink > 1)):
            write_whole(log, b"" if log.is_symlink() else log.read_bytes())


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@contextlib.contextmanager
def _still_there(directory: Path) -> Iterator[None]:
    """Raise `RunDirectoryError` if a locked directory was removed during the block, whatever failed for that reason."""
    failure: Exception | None = None
    try:
        yield
    except (PipelineError, OSError) as error:
        failure = error
    if not (directory / lock.LOCK).exists():
        reason = "it was removed while this command worked in it; run the command again"
        raise RunDirectoryError(f"{directory} is not complete: {reason}") from failure
    if failure is not None:
        raise failure
