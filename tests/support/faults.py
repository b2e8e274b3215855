"""Faults while a command writes: it is killed or stopped at a change, changes fail, or the power does (`faults.c`)."""

import os
import shutil
import signal
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

_PAGE = 4096
_RECORD = struct.Struct("5Q")
_SHARED = struct.Struct("QQqQ")
_DATA, _NAME, _FLUSHED = range(3)


class Faults:
    """What happens to the changes that the processes of a command make to files below a directory.

    log: of what would undo them; it is outside that directory, but on its file system.
    """

    def __init__(self, library: Path, log: Path) -> None:
        self._library, self._shared, self._log = library, log.with_name(f"{log.name}.shared"), log

    def environment(
        self, below: Path, at: int = 0, fault: int = -signal.SIGKILL, *, lasting: bool = False, logged: bool = False
    ) -> dict[str, str]:
        """Return the environment in which the `at`-th change has a fault; 0: none.

        fault: the error that it fails with, or a negative signal for the process group; lasting: whether all later
        changes that need space fail, too; logged: for `fail_power`.
        """
        self._shared.write_bytes(_SHARED.pack(0, at, fault, lasting))
        where = {"FAULTS_BELOW": str(below), "FAULTS_SHARED": str(self._shared)}
        return {"LD_PRELOAD": str(self._library), **where, **({"FAULTS_LOG": str(self._log)} if logged else {})}

    @property
    def changes(self) -> int:
        """How many changes there were."""
        return int(_SHARED.unpack(self._shared.read_bytes())[0])

    def fail_power(self, below: Path, choose: Random) -> None:
        """Lose changes that were not flushed, as if the power had failed when the command was stopped.

        Of the bytes of each file some are as they were at its last flush, or zeros. Of the changes of names the last
        ones are undone, up to those before the last flush of their directories.
        """
        records, kept = list(_records(self._log)), self._log.with_name(f"{self._log.name}.kept")
        flushed = {record.inode: at for at, record in enumerate(records) if record.kind == _FLUSHED}
        lost: dict[int, list[_Record]] = {}
        for at, record in enumerate(records):
            if record.kind == _DATA and at > flushed.get(record.inode, -1):
                lost.setdefault(record.inode, []).append(record)
        for path in [*sorted(below.rglob("*")), *sorted(kept.iterdir())]:
            if path.is_file() and (of_file := lost.pop(path.stat().st_ino, None)):
                now = path.read_bytes()
                path.write_bytes(_damaged(now, _undone(now, of_file), choose))
        names = [(at, record) for at, record in enumerate(records) if record.kind == _NAME]
        durable = [all(flushed.get(one, -1) > at for one in (record.at, record.size)) for at, record in names]
        first = max((at for at, is_durable in enumerate(durable, 1) if is_durable), default=0)
        cut = choose.choice([first, choose.randint(first, len(names)), len(names)])
        for _, record in reversed(names[cut:]):
            _undo_name(record, kept)
        shutil.rmtree(kept)
        self._log.unlink()


@dataclass(frozen=True)
class _Record:
    """What `faults.c` wrote: a change that was about to be made, or a flush that was."""

    kind: int
    inode: int
    at: int
    size: int
    old: bytes


def _records(log: Path) -> Iterator[_Record]:
    data, at = log.read_bytes(), 0
    while at < len(data):
        *numbers, size = _RECORD.unpack_from(data, at)
        at += _RECORD.size + size
        yield _Record(*numbers, data[at - size : at])


def _undone(now: bytes, changes: list[_Record]) -> bytes:
    """Return what a file was before changes."""
    data = bytearray(now)
    for change in reversed(changes):
        data[change.at : change.at + len(change.old)] = change.old
        data = data[: change.size].ljust(change.size, b"\0")
    return bytes(data)


def _damaged(now: bytes, before: bytes, choose: Random) -> bytes:
    """Return one of the contents that a file may have when not all that was written is on disk."""
    size = choose.choice([len(now), len(before), choose.randint(*sorted((len(now), len(before))))])
    now, before = now[:size].ljust(size, b"\0"), before[:size].ljust(size, b"\0")
    cut = choose.randint(0, size)
    pages = [(now, before)[choose.random() < 0.5][at : at + _PAGE] for at in range(0, size, _PAGE)]
    return choose.choice([now, before, now[:cut] + before[cut:], b"".join(pages)])


def _undo_name(record: _Record, kept: Path) -> None:
    """Undo a change of names, if it was made."""
    what, *paths = os.fsdecode(record.old).split("\0")
    path, other = map(Path, paths)
    with suppress(OSError):
        if what == "mkdir":
            path.rmdir()
        elif what == "rmdir":
            path.mkdir()
        elif what == "create":
            path.unlink()
        elif what == "remove" and not path.exists():
            path.hardlink_to(kept / str(record.inode))
        elif what == "rename" and not path.exists():
            other.rename(path)
            if record.inode:
                other.hardlink_to(kept / str(record.inode))
