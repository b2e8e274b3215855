"""An advisory lock on a directory of an object store.

A store has no lock that ends with its process. So each run writes an object of its own, `.lock-TOKEN`, into the
directory and then lists the others. On a store with consistent listings, such as S3, at least one of two runs that
start at the same time sees the other, and a run that sees a live one stops. A run refreshes its object every few
seconds. A lock that is a minute old by the store's clock, or whose process is dead, is removed.

The lock is advisory: another run may take over from a machine that was suspended for more than a minute. The suspended
run notices that its object is gone (`require_ours`) before it writes `run.json`, the combined counter, merges or
tokenizers; counters of chunks carry the fingerprint of the run that wrote them.
"""

import contextlib
import json
import os
import platform
import secrets
import threading
from collections.abc import Iterator
from typing import Any

from pipeline.base.errors import RunDirectoryError
from pipeline.storage.bounded import CONFIG_BYTES, read_json
from pipeline.storage.remote import Remote
from pipeline.storage.scratch import is_alive, process_namespace, scratch_directory, start_time

REFRESH_S = 5.0
STALE_S = 60.0
_PREFIX = ".lock-"
_held: dict[Remote, Remote] = {}  # directory -> this process's lock object in it


@contextlib.contextmanager
def held(directory: Remote) -> Iterator[None]:
    """Hold the lock on a remote directory while the block runs.

    Raises `RunDirectoryError` if another live run holds it or the directory cannot be written.
    """
    lock = directory / f"{_PREFIX}{secrets.token_hex(8)}"
    holder = {"host": platform.node(), "place": process_namespace(), "process": os.getpid(), "started": start_time()}
    content = json.dumps(holder).encode()
    with contextlib.ExitStack() as releasing:
        try:
            _write(lock, content)
            releasing.callback(_remove, lock)
            _refuse_others(directory, lock)
        except OSError as error:
            raise RunDirectoryError(
                f"{directory} cannot be written: {error.strerror or error}; fix that, or choose another --output"
            ) from None
        released = threading.Event()
        thread = threading.Thread(target=_refresh, args=(lock, content, released), name="lock", daemon=True)
        thread.start()
        releasing.callback(thread.join)
        releasing.callback(released.set)
        _held[directory] = lock
        releasing.callback(_held.pop, directory)
        yield


def require_ours(directory: Remote) -> None:
    """Raise `RunDirectoryError` if another run took over the lock that this process holds on a directory."""
    lock = _held.get(directory)
    try:
        if lock is None or lock.exists():
            return
    except OSError as error:
        raise RunDirectoryError(
            f"{directory} cannot be reached: {error.strerror or error}; run the same command again"
        ) from None
    raise RunDirectoryError(
        f"another process took over {directory} while this one was suspended for a minute; what is finished is kept: "
        "run the same command again when the other has ended"
    )


def _refresh(lock: Remote, content: bytes, released: threading.Event) -> None:
    while not released.wait(REFRESH_S):
        with contextlib.suppress(OSError):  # a store that does not answer now may answer the next time
            if not lock.exists():
                return  # another run removed it: `require_ours` reports that
            _write(lock, content)


def _refuse_others(directory: Remote, lock: Remote) -> None:
    """Remove locks of dead runs; raise `RunDirectoryError` for a live one."""
    now_s = lock.stat().st_mtime_ns / 1e9  # by the store's clock, as the others' times are
    for child in directory.children():
        other = directory / child.name
        if not child.name.startswith(_PREFIX) or other == lock:
            continue
        try:
            age_s = now_s - other.stat().st_mtime_ns / 1e9
            holder = read_json(other, CONFIG_BYTES)
        except FileNotFoundError:
            continue  # its run has just ended
        except ValueError:
            holder = None
        holder = holder if isinstance(holder, dict) else {}
        if age_s > STALE_S or _is_dead(holder):
            other.unlink(missing_ok=True)
            continue
        raise RunDirectoryError(
            f"another process ({holder.get('host')}, process {holder.get('process')}) is working on {directory}, last "
            f"seen {max(age_s, 0):.0f} s ago; wait for it, or choose another --output (the lock of a killed run "
            f"expires after {STALE_S:.0f} s)"
        )


def _is_dead(holder: dict[str, Any]) -> bool:
    """Whether the holder is a process of this host that has ended; of other hosts only the lock's age is known."""
    process = holder.get("process")
    if holder.get("place") != process_namespace() or not isinstance(process, int) or process <= 0:
        return False
    return not is_alive(process, holder.get("started"))


def _write(lock: Remote, content: bytes) -> None:
    with scratch_directory() as directory:
        (directory / "lock").write_bytes(content)
        lock.upload(directory / "lock")


def _remove(lock: Remote) -> None:
    with contextlib.suppress(OSError):
        lock.unlink(missing_ok=True)
