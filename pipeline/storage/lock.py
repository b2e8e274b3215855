"""An advisory lock on a directory of an object store, which has no lock that ends with its process.

Each run writes an object of its own, `.lock-TOKEN`, refreshes it every few seconds, and lists the others: on a store
with consistent listings, such as S3, at least one of two runs that start at the same time sees the other, and stops. A
lock that is a minute old by the store's clock, or whose process is dead, is removed.

So another run may take over from a machine that was suspended for more than a minute. The suspended run notices that
its object is gone (`require_ours`) before it writes `run.json`, the combined counter, merges or tokenizers; counters of
chunks carry the fingerprint of the run that wrote them.
"""

import contextlib
import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterator

from pipeline.base.errors import RunDirectoryError, os_error_as
from pipeline.storage import CONFIG_BYTES, read_json
from pipeline.storage.remote import Remote
from pipeline.storage.scratch import is_alive, process_namespace, scratch_directory

REFRESH_S = 5.0
STALE_S = 60.0
_PREFIX = ".lock-"
_held: dict[Remote, Remote] = {}  # directory -> this process's lock object in it


@contextlib.contextmanager
def held(directory: Remote) -> Iterator[None]:
    """Hold the lock on a directory during the block. Raises `RunDirectoryError` if another live run holds it."""
    import psutil

    lock = directory / f"{_PREFIX}{secrets.token_hex(8)}"
    holder = {"host": platform.node(), "place": process_namespace(), "process": os.getpid()}
    content = json.dumps(holder | {"started": psutil.Process().create_time()})
    released = threading.Event()

    def write() -> None:
        with scratch_directory() as scratch:
            (scratch / "lock").write_text(content)
            lock.upload(scratch / "lock")

    def refresh() -> None:
        written_s = time.time()  # by the clock that runs while the machine is suspended
        while not released.wait(REFRESH_S):
            with contextlib.suppress(OSError):  # a store that does not answer now may answer the next time
                if not lock.exists():
                    return  # another run removed it: `require_ours` reports that
                write()
                late, written_s = time.time() - written_s > STALE_S, time.time()
                if late and _others(directory, lock):  # another run took over before `write`, which made it again
                    lock.remove()
                    return

    refreshing = threading.Thread(target=refresh, name="lock", daemon=True)
    refused = RunDirectoryError, f"{directory} cannot be written", "fix that, or choose another --output"
    with os_error_as(*refused):
        write()
    try:
        with os_error_as(*refused):
            _refuse_others(directory, lock)
        refreshing.start()
        _held[directory] = lock
        yield
    finally:
        _held.pop(directory, None)
        released.set()
        if refreshing.ident is not None:
            refreshing.join()
        with contextlib.suppress(OSError):
            lock.remove()


def require_ours(directory: Remote) -> None:
    """Raise `RunDirectoryError` if another run took over the lock that this process holds on a directory."""
    lock = _held.get(directory)
    with os_error_as(RunDirectoryError, f"{directory} cannot be reached", "run the same command again"):
        if lock is None or lock.exists():
            return
    raise RunDirectoryError(
        f"another process took over {directory} while this one was suspended for a minute; what is finished is kept: "
        "run the same command again when the other has ended"
    )


def _others(directory: Remote, lock: Remote) -> list[Remote]:
    """Return the locks of other runs on a directory."""
    names = (child.name for child in directory.children())
    return [directory / name for name in names if name.startswith(_PREFIX) and name != lock.name]


def _refuse_others(directory: Remote, lock: Remote) -> None:
    """Remove locks of dead runs; raise `RunDirectoryError` for a live one."""
    now_s = lock.stat().st_mtime_ns / 1e9  # by the store's clock, as the others' times are
    for other in _others(directory, lock):
        try:
            age_s = now_s - other.stat().st_mtime_ns / 1e9
            holder = read_json(other, CONFIG_BYTES)
        except FileNotFoundError:
            continue  # its run has just ended
        except ValueError:
            holder = None
        holder = holder if isinstance(holder, dict) else {}
        process = holder.get("process")
        is_dead = (
            holder.get("place") == process_namespace()
            and isinstance(process, int)
            and process > 0
            and not is_alive(process, holder.get("started"))
        )
        if age_s > STALE_S or is_dead:
            other.remove()
            continue
        raise RunDirectoryError(
            f"another process ({holder.get('host')}, process {process}) is working on {directory}, last "
            f"seen {max(age_s, 0):.0f} s ago; wait for it, or choose another --output (the lock of a killed run "
            f"expires after {STALE_S:.0f} s)"
        )
