"""Who works in a directory: one process alone, or parts (`--part I/N`), which only ever write files by rename.

On a file system the one process has the system's lock on `.lock`, which ends with it. Where a file system has no such
lock, and in an object store, it writes `.locked-by`: its host, process and start. The file is made exclusively on a
file system. A store has nothing like that: the file is written, then read back, so of two commands that start at the
same instant both may believe that they work alone.

A `.locked-by` of a dead process of this host is replaced. Whether a process of another host lives cannot be known here:
the refusal has the line that removes the file. Parts write neither; they are refused while another works alone.
"""

import contextlib
import errno
import fcntl
import json
import os
import platform
import shlex
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl

from bpe_pipeline.base import system
from bpe_pipeline.base.errors import RunDirectoryError, StorageError, os_error_as
from bpe_pipeline.storage import CONFIG_BYTES, Location, read_json, remove
from bpe_pipeline.storage.atomic import make_directory, write_whole
from bpe_pipeline.storage.scratch import PARTIAL, is_alive, own_mark, process_namespace

LOCK, LOCKED_BY = ".lock", ".locked-by"
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)  # of a file system
_OWNER_BYTES = 512  # one write replaces what another process wrote
_TRIES, _SOON_S = 20, 0.05  # for a lock that a part may have for an instant, to see whether it is free
_SETTLED_S = 0.3  # after which what another command wrote into a store at the same time is there
_locked_by_us: dict[Location, str] = {}  # directory -> what we wrote into its `.locked-by`


@dataclass(frozen=True)
class Owner:
    """The process that works in a directory, as it wrote itself. started: when, in seconds since 1970."""

    host: str = "unknown host"
    place: str = ""  # see `process_namespace`
    process: int = 0
    started: float = 0.0

    @property
    def is_dead(self) -> bool:
        """Whether it is certainly dead: a process of this host that ended, or from before its last start."""
        import psutil

        if self.place == process_namespace():
            return not is_alive(self.process, self.started)
        return self.host == platform.node() and 0 < self.started < psutil.boot_time()

    def __str__(self) -> str:
        since = ""
        with contextlib.suppress(ValueError, OverflowError):  # no time: the file is damaged
            since = f", since {datetime.fromtimestamp(self.started, UTC):%Y-%m-%d %H:%M:%S} UTC" if self.started else ""
        return f"({self.host}, process {self.process}{since})"


def _ourselves() -> str:
    import psutil

    owner = Owner(platform.node(), process_namespace(), os.getpid(), psutil.Process().create_time())
    return json.dumps(vars(owner))


def _owner_in(file: Location) -> Owner | None:
    """Return whom a file names; None if there is no file."""
    import msgspec

    try:
        return msgspec.convert(read_json(file, CONFIG_BYTES), Owner)
    except FileNotFoundError:
        return None
    except ValueError:
        return Owner()


def _owner_of_lock(lock: Path) -> Owner:
    """Return whom the system's lock file names, as far as it can be read: it may be a foreign pipe."""
    with contextlib.suppress(OSError, StorageError):
        return _owner_in(lock) or Owner()
    return Owner()


@contextlib.contextmanager
def held(directory: Location) -> Iterator[None]:
    """Work in a directory alone during the block; make it if it is missing.

    Raises `RunDirectoryError` naming another process that works there.
    """
    make_directory(directory)
    with contextlib.ExitStack() as leaving:
        descriptor = _locked(directory) if isinstance(directory, Path) else None
        if descriptor is not None:
            leaving.callback(os.close, descriptor)
        with os_error_as(RunDirectoryError, f"{directory} cannot be written", "fix that, or choose another --output"):
            _remove_dead_locked_by(directory)  # also where the system has locks: another node's mount may have none
            if descriptor is None:
                _write_locked_by(directory)
                leaving.callback(_remove_locked_by, directory)
            elif _is_ours(directory / LOCK, descriptor):
                leaving.callback(_empty, descriptor)
                os.pwrite(descriptor, f"{_ourselves():<{_OWNER_BYTES}}".encode(), 0)
        yield


def refuse_locked(directory: Location) -> None:
    """Raise `RunDirectoryError`, for a part, if a process works in the directory alone."""
    owner = _owner_in(directory / LOCKED_BY)
    if owner is not None and not owner.is_dead:
        raise _is_locked_by(directory, owner)
    if not isinstance(directory, Path):
        return
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_NONBLOCK)  # a foreign pipe would block
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise _is_locked(directory) from None
    finally:
        os.close(descriptor)


def require_ours(directory: Location) -> None:
    """Raise `RunDirectoryError` if `.locked-by` is not this process's any more: somebody removed it."""
    ours = _locked_by_us.get(directory)
    if ours is None:
        return  # the system's lock, which no one can take
    reached = os_error_as(RunDirectoryError, f"{directory} cannot be reached", "run the same command again")
    with reached, contextlib.suppress(FileNotFoundError, ValueError):
        if read_json(directory / LOCKED_BY, CONFIG_BYTES) == json.loads(ours):
            return
    raise RunDirectoryError(
        f"{directory / LOCKED_BY} was removed while this process worked, so another may work there now; what is "
        "finished is kept: run the same command again when no other runs"
    )


def create(where: Location, data: str) -> bool:
    """Write a small file, whole, unless it exists; return whether this process wrote it.

    On a file system a hard link does that; in a store it is written, then read back.
    """
    if isinstance(where, Path):
        return _link(where, data)
    if where.exists():
        return False
    write_whole(where, data)
    time.sleep(_SETTLED_S)
    return where.read_bytes() == data.encode()


def _remove_dead_locked_by(directory: Location) -> None:
    """Remove the `.locked-by` of a dead process; raises `RunDirectoryError` for that of one that may live."""
    file = directory / LOCKED_BY
    while (owner := _owner_in(file)) is not None:
        if not owner.is_dead:
            raise _is_locked_by(directory, owner)
        _remove_dead(file)


def _write_locked_by(directory: Location) -> None:
    file, ours = directory / LOCKED_BY, _ourselves()
    if not create(file, ours):
        raise _is_locked_by(directory, _owner_in(file) or Owner())
    _locked_by_us[directory] = ours


def _remove_dead(file: Location) -> None:
    """Remove the file of a dead process, unless another process has replaced it by now.

    On a file system one process at a time looks and removes: the one that has made a second file.
    """
    if not isinstance(file, Path):
        remove(file)
        return
    removing = file.with_name(f"{file.name}-removing")
    for _ in range(_TRIES):
        if _link(removing, _ourselves()):
            try:
                if (owner := _owner_in(file)) is not None and owner.is_dead:
                    file.unlink()
            finally:
                removing.unlink()
            return
        time.sleep(_SOON_S)
    raise RunDirectoryError(
        f"{removing} was left by a killed process; if no other command starts here: {_removal(removing)}"
    )


def _remove_locked_by(directory: Location) -> None:
    with contextlib.suppress(OSError, RunDirectoryError):
        require_ours(directory)
        remove(directory / LOCKED_BY)
    _locked_by_us.pop(directory, None)


def _is_locked_by(directory: Location, owner: Owner) -> RunDirectoryError:
    """Return the error for a directory with another process's `.locked-by`."""
    line = _removal(directory / LOCKED_BY)
    return RunDirectoryError(
        f"another process is working on {directory} {owner}; wait for it, or choose another --output. If it is dead: "
        f"{line}"
    )


def _removal(file: Location) -> str:
    """Return the command that removes a file."""
    if isinstance(file, Path):
        return shlex.join(["rm", str(file)])
    if not file.base.startswith("s3://"):
        return f"remove the object {file}"
    of_store = dict(parse_qsl(file.query))
    host = of_store.get("endpoint_override")
    endpoint = ["--endpoint-url", f"{of_store.get('scheme', 'https')}://{host}"] if host else []
    return shlex.join(["aws", "s3", "rm", f"{file.base}/{file.key}", *endpoint])


def _empty(descriptor: int) -> None:
    """Forget who had the lock; where the system refuses that, the next process overwrites it."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)


def _is_ours(path: Location, descriptor: int) -> bool:
    """Return whether an open lock file is no link or pipe, and empty or written by a process that had the lock."""
    assert isinstance(path, Path), "the system locks files"
    status = os.fstat(descriptor)
    owner = _owner_in(path) if status.st_size else None
    is_own = (stat.S_ISREG(status.st_mode) and not status.st_size) or (owner is not None and owner.process > 0)
    return is_own and status.st_nlink == 1 and os.path.samestat(status, path.lstat())


def _locked(directory: Path) -> int | None:
    """Lock a directory's lock file, again if its last owner removed it meanwhile, so that the lock holds nothing.

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
            owner = _owner_of_lock(path)
            if tries > _TRIES or (owner.process and not owner.is_dead):
                raise _is_locked(directory) from None  # else it may be a part that looks
            time.sleep(_SOON_S)
        finally:
            if not holds:
                os.close(descriptor)
    return descriptor


def _is_locked(directory: Path) -> RunDirectoryError:
    """Return the error for a directory that another process has locked."""
    owner = _owner_of_lock(directory / LOCK)
    who = f" {owner}" if owner.process else ""
    return RunDirectoryError(f"another process is working on {directory}{who}; wait for it, or choose another --output")


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
