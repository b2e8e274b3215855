"""Working alone on a directory of an object store, as far as a store can promise it.

A store has no lock that dies with its process. Each run puts an object of its own, `.lock-TOKEN`, into the directory
and then looks which others are there; on a store that lists what was written before (S3 does), at least one of two
runs that begin at once sees the other, and who sees a live one leaves. A run refreshes its object every few seconds;
one that was not refreshed for a minute, by the store's own clock, or whose process is dead, is nobody's any more.

What remains: a run that stood still for a minute (a suspended machine) may be taken for dead. It notices that its
object is gone before it writes `run.json`, the combined counter, merges or tokenizers (`require_ours`); the counters of
chunks carry the fingerprint of what made them.
"""

import contextlib
import json
import os
import platform
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pipeline.base.errors import RunDirectoryError
from pipeline.storage.remote import Remote
from pipeline.storage.scratch import is_alive, place, scratch_directory

REFRESH_S = 5.0
STALE_S = 60.0
_PREFIX = ".lock-"
_CLOCK_S = 5.0  # by which a host's clock may be put right meanwhile


@dataclass
class _Held:
    """Our object in a directory, refreshed by a thread while we work."""

    directory: Remote
    mine: Remote
    content: bytes
    released: threading.Event = field(default_factory=threading.Event)

    def refresh(self) -> None:
        while not self.released.wait(REFRESH_S):
            with contextlib.suppress(OSError):  # a store that does not answer now may do so in a moment
                if not self.mine.exists():
                    return  # taken away: `require_ours` says so
                _put(self.mine, self.content)


_held: dict[Remote, _Held] = {}


@contextlib.contextmanager
def held(directory: Remote) -> Iterator[None]:
    """Work on a remote directory; raises `RunDirectoryError` while another live run does, or where it cannot be
    written.
    """
    token = secrets.token_hex(8)
    mine = directory / f"{_PREFIX}{token}"
    content = json.dumps(
        {"host": platform.node(), "place": place(), "process": os.getpid(), "started": _started(os.getpid())}
    ).encode()
    try:
        _put(mine, content)
        try:
            _refuse_others(directory, mine)
        except BaseException:
            _take_away(mine)
            raise
    except OSError as error:
        raise RunDirectoryError(
            f"{directory} cannot be written: {error.strerror or error}; mend that, or choose another --output"
        ) from None
    lock = _held[directory] = _Held(directory, mine, content)
    thread = threading.Thread(target=lock.refresh, name="lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        del _held[directory]
        lock.released.set()
        thread.join()
        _take_away(mine)


def require_ours(directory: Remote) -> None:
    """Raise `RunDirectoryError` where the lock that this process holds on a directory was taken over."""
    lock = _held.get(directory)
    if lock is None:
        return
    try:
        ours = lock.mine.exists()
    except OSError as error:
        raise RunDirectoryError(f"{directory} cannot be reached: {error.strerror or error}") from None
    if not ours:
        raise RunDirectoryError(
            f"another process took over {directory} while this one stood still for a minute; what is finished is "
            "kept: run the same command again when the other has ended"
        )


def _refuse_others(directory: Remote, mine: Remote) -> None:
    now_s = mine.stat().st_mtime_ns / 1e9  # by the store's clock, as the others' times are
    for child in directory.children():
        other = directory / child.name
        if not child.name.startswith(_PREFIX) or other == mine:
            continue
        try:
            age_s = now_s - other.stat().st_mtime_ns / 1e9
            holder = _read(other)
        except FileNotFoundError:
            continue  # it ended while we looked
        if age_s > STALE_S or _is_dead(holder):
            other.unlink(missing_ok=True)
            continue
        raise RunDirectoryError(
            f"another process ({holder.get('host')}, process {holder.get('process')}) is working on {directory}, last "
            f"seen {max(age_s, 0):.0f} s ago; wait for it, or choose another --output (of one that was killed, the "
            f"lock lapses after {STALE_S:.0f} s)"
        )


def _read(lock: Remote) -> dict[str, Any]:
    try:
        holder = json.loads(lock.read_bytes())
    except (ValueError, RecursionError):
        holder = None
    return holder if isinstance(holder, dict) else {}


def _is_dead(holder: dict[str, Any]) -> bool:
    """Whether it is of this place and its process is no more; of other hosts only time tells."""
    process = holder.get("process")
    if holder.get("place") != place() or not isinstance(process, int) or process <= 0:
        return False
    if not is_alive(process):
        return True
    began, noted = _started(process), holder.get("started")
    return began is not None and isinstance(noted, float) and abs(began - noted) > _CLOCK_S


def _started(process: int) -> float | None:
    """When a process of this host began: its id may be another's later."""
    import psutil

    try:
        return float(psutil.Process(process).create_time())
    except psutil.Error:
        return None


def _put(lock: Remote, content: bytes) -> None:
    with scratch_directory() as directory:
        (directory / "lock").write_bytes(content)
        lock.upload(directory / "lock")


def _take_away(lock: Remote) -> None:
    with contextlib.suppress(OSError):
        lock.unlink(missing_ok=True)
