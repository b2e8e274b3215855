"""Locks on a directory: of one process alone, or of parts (`--part I/N`), which share it.

On a file system what works alone has the system's lock, which ends with its process. In an object store, and where the
file system has no such lock, it has a file of its own, `.lock-TOKEN` (`storage.holders`), and lists the others: on a
store with consistent listings, such as S3, at least one of two runs that start at the same time sees the other, and
stops. So it is between parts, which have files alone and ask for no lock, and what works without them.

So another run may take over from a machine that was suspended for more than a minute. The suspended run notices that
its file is gone (`require_ours`) before it writes `run.json`, the combined counter, merges or tokenizers; counters of
chunks carry the fingerprint of the run that wrote them.
"""

import contextlib
import errno
import fcntl
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.storage import Location, names_in, remove
from bpe_pipeline.storage.atomic import make_directory, write_whole
from bpe_pipeline.storage.holders import (
    PARTS,
    Holder,
    holder_of,
    identity,
    own_file,
    part_file,
    parts_of,
    registered,
    stale_s,
)
from bpe_pipeline.storage.scratch import PARTIAL, own_mark

LOCK = ".lock"
_PREFIX = ".lock-"
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)  # of a file system
_LOOK_S = 0.5  # between looks at another process
_IDENTITY_BYTES = 512  # one write replaces what another process wrote
_TRIES = 20  # for a lock that a part may have for an instant, to see whether it is free
_SOON_S = 0.05
_WAITS_S = 0.1, 1.0  # of two that want to write one file


@contextlib.contextmanager
def held(directory: Location, tell: Callable[[str], object] = str) -> Iterator[None]:
    """Work in a directory alone during the block; make it if it is missing.

    Raises `RunDirectoryError` naming another live process that works there; waits for a part on another machine until
    it is known whether it lives. tell: takes what is waited for.
    """
    make_directory(directory)
    with contextlib.ExitStack() as leaving:
        descriptor = _locked(directory) if isinstance(directory, Path) else None
        own = directory / (LOCK if descriptor is not None else f"{_PREFIX}{secrets.token_hex(8)}")
        if descriptor is None:
            leaving.callback(_remove, own)
            with _writing(directory):
                leaving.enter_context(
                    registered(directory, own, identity(), is_lost=lambda: bool(_locks(directory, own)))
                )
        else:
            leaving.callback(os.close, descriptor)
            if _is_ours(own, descriptor):
                leaving.callback(_empty, descriptor)
                with _writing(directory):
                    os.pwrite(descriptor, f"{identity():<{_IDENTITY_BYTES}}".encode(), 0)
        with _writing(directory):
            _refuse_alone(directory, own)
            _refuse_parts(directory, own, tell)
        yield


def _empty(descriptor: int) -> None:
    """Forget who had the lock; where the system refuses that, the next process overwrites it."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)


def _is_ours(path: Location, descriptor: int) -> bool:
    """Return whether an open lock file is no link, and empty or written by a process that had the lock."""
    assert isinstance(path, Path), "the system locks files"
    status = os.fstat(descriptor)
    holder = holder_of(path, 0.0) if status.st_size else None
    is_own = not status.st_size or (holder is not None and holder.process > 0)
    return is_own and status.st_nlink == 1 and os.path.samestat(status, path.lstat())


@contextlib.contextmanager
def joined(directory: Location, part: str, manifest: str) -> Iterator[None]:
    """Work in a directory as a part during the block; make it, and remove it if it has no manifest at the end.

    Raises `RunDirectoryError` naming a process that works there alone. How the part ended is shown until one does.
    """
    own, ended = part_file(directory, part, "json"), ""

    def leave() -> None:
        if ended and (directory / manifest).exists():
            write_whole(own, identity(part=part, ended=ended))
        else:
            _remove(own)
            _remove(part_file(directory, part, "log"))
            with contextlib.suppress(OSError):
                for empty in (directory / PARTS, directory):
                    if isinstance(empty, Path):
                        empty.rmdir()

    with contextlib.ExitStack() as leaving:
        leaving.callback(leave)
        with _writing(directory):
            make_directory(directory / PARTS)
            leaving.enter_context(registered(directory, own, identity(part=part), is_lost=lambda: False))
            _refuse_alone(directory, own)
            if isinstance(directory, Path):
                _refuse_locked(directory)
        try:
            ended = "failed"
            yield
            ended = "done"
        except KeyboardInterrupt:
            ended = "stopped"
            raise


def require_ours(directory: Location) -> None:
    """Raise `RunDirectoryError` if another run took over the directory from this process."""
    own = own_file(directory)
    with os_error_as(RunDirectoryError, f"{directory} cannot be reached", "run the same command again"):
        if own is None or own.exists():
            return
    raise RunDirectoryError(
        f"another process took over {directory} while this one was suspended for a minute; what is finished is kept: "
        "run the same command again when the other has ended"
    )


def _writing(directory: Location) -> "contextlib.AbstractContextManager[None]":
    return os_error_as(RunDirectoryError, f"{directory} cannot be written", "fix that, or choose another --output")


def _remove(own: Location) -> None:
    with contextlib.suppress(OSError):
        remove(own)


def _locked(directory: Path) -> int | None:
    """Lock a directory's lock file, again if its last holder removed it meanwhile, so that the lock holds nothing.

    Returns its descriptor; None if the file system has no locks.
    """
    path, holds, descriptor, tries = directory / LOCK, False, -1, 0
    while not holds:
        make_directory(directory)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not directory.is_dir():
                continue
            reason = error.strerror
            raise RunDirectoryError(f"{directory} cannot be written: {reason}; choose another --output") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                holds = os.path.samestat(os.fstat(descriptor), path.stat())
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            tries += 1
            holder = holder_of(path, 0.0)
            if tries > _TRIES or (holder is not None and holder.is_here and not holder.stale):
                raise _is_locked(directory) from None  # else it may be a part that looks
            time.sleep(_SOON_S)
        finally:
            if not holds:
                os.close(descriptor)
    return descriptor


def _is_locked(directory: Path) -> RunDirectoryError:
    """Return the error for a directory that another process has locked."""
    who = ""
    with contextlib.suppress(OSError):
        holder = holder_of(directory / LOCK, 0.0)
        who = "" if holder is None or holder.stale else f" ({holder.host}, process {holder.process})"
    return RunDirectoryError(f"another process is working on {directory}{who}; wait for it, or choose another --output")


def _refuse_locked(directory: Path) -> None:
    """Raise `RunDirectoryError` if a process has locked the directory, as far as the file system has locks."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise _is_locked(directory) from None
    finally:
        os.close(descriptor)


def _locks(directory: Location, own: Location) -> list[Location]:
    """Return the locks of others on a directory."""
    return [directory / name for name in names_in(directory) if name.startswith(_PREFIX) and name != own.name]


def _refuse_alone(directory: Location, own: Location) -> None:
    """Remove locks of dead processes; raise `RunDirectoryError` for a live one that works in the directory alone.

    own: a file that this process just wrote, for its time.
    """
    others = _locks(directory, own)
    for other in _live(others, own.stat().st_mtime_ns / 1e9 if others else 0.0):
        raise RunDirectoryError(
            f"{other} is working on {directory}, last seen {other.seen_s:.0f} s ago; wait for it, or choose another "
            f"--output (the lock of a killed run expires after {stale_s(other.file):.0f} s)"
        )


def _live(files: Sequence[Location], now_s: float) -> Iterator[Holder]:
    """Yield the live processes among those of these files; remove the files of dead ones."""
    for file in files:
        if (holder := holder_of(file, now_s)) is not None:
            if not holder.stale:
                yield holder
            else:
                remove(file)


def _refuse_parts(directory: Location, own: Location, tell: Callable[[str], object]) -> None:
    """Raise `RunDirectoryError` for parts that work in the directory."""
    if PARTS not in names_in(directory):
        return
    written_s, started_s = own.stat().st_mtime_ns / 1e9, time.monotonic()
    waited_s = 0.0
    while parts := [one for one in parts_of(directory, written_s + waited_s) if one.state == "running"]:
        if alive := [one for one in parts if one.is_here or one.seen_s < waited_s]:
            more = f" and {len(parts) - 1:,} more work" if len(parts) > 1 else " works"
            raise RunDirectoryError(
                f"{alive[0]}{more} in {directory}: wait for them, or stop them; `bpe-pipeline info {directory}` "
                "shows them"
            )
        if not waited_s:
            tell(f"waiting up to {stale_s(own):.0f} s for {parts[0]}, last seen {parts[0].seen_s:.0f} s ago")
        time.sleep(_LOOK_S)
        waited_s = time.monotonic() - started_s


def create(where: Location, data: str) -> bool:
    """Write a small file, whole, unless it exists; return whether this process wrote it.

    On a file system a hard link does that; in a store the process that sees no other one that wants to.
    """
    if isinstance(where, Path):
        return _link(where, data)
    prefix = f".{where.name}.wanted-"
    own = where.with_name(f"{prefix}{secrets.token_hex(8)}")
    while not where.exists():
        try:
            write_whole(own, identity())
            names = [name for name in names_in(where.parent) if name.startswith(prefix) and name != own.name]
            others = [where.with_name(name) for name in names]
            if not any(_live(others, own.stat().st_mtime_ns / 1e9)) and not where.exists():
                write_whole(where, data)
                return True
        finally:
            _remove(own)
        time.sleep(random.uniform(*_WAITS_S))  # noqa: S311 - no secret
    return False


def _link(where: Path, data: str) -> bool:
    partial = where.with_name(f".{where.name}.{own_mark()}{PARTIAL}")
    with os_error_as(RunDirectoryError, f"{where} cannot be written", "--part needs a file system with hard links"):
        try:
            partial.write_text(data, encoding="utf-8")
            system.flush(partial)
            with contextlib.suppress(FileExistsError):
                os.link(partial, where)
            system.flush(where.parent)
            return partial.samefile(where)  # also where a request was repeated, of which one succeeded
        finally:
            partial.unlink(missing_ok=True)
