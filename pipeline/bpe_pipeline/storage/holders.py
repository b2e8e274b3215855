"""Who works in a directory: each process has a file of its own there, refreshes it, and others see whether it lives.

A file that was not refreshed for a minute by the store's clock (three on a file system: NFS may show times a minute
late), or whose process is dead, is that of a dead process. `parts/I-of-N.MARK.json` is a part's (`--part I/N`), with
its log next to it; both stay when it ends, until something works in the directory alone.
"""

import contextlib
import json
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.storage import CONFIG_BYTES, Location, names_in, read_json, remove
from bpe_pipeline.storage.atomic import write_whole
from bpe_pipeline.storage.scratch import is_alive, own_mark, process_namespace

REFRESH_S = 5.0
STALE_S = 60.0
LATE_S = 120.0  # more, for files that another node of a shared file system may see late
PARTS = "parts"
OF_PART = re.compile(r"\.?[0-9]+-of-[0-9]+\.[0-9a-f]+-[0-9]+\.(json|log)(\.[0-9a-f]+-[0-9]+\.partial)?")
_held: dict[Location, Location] = {}  # directory -> this process's file in it


@dataclass(frozen=True)
class Holder:
    """A process that works in a directory, or did. part: its `I/N`; "" for one that works alone.

    ended: how it ended, if it did; seen_s: seconds since it last refreshed its file; is_here: whether its process id
    means something on this machine; stale: whether it is dead, as far as can be known from here.
    """

    file: Location
    host: str
    process: int
    part: str
    ended: str
    seen_s: float
    is_here: bool
    stale: bool

    @property
    def state(self) -> str:
        """What it does, in a word."""
        return self.ended or ("dead" if self.stale else "running")

    def __str__(self) -> str:
        return f"{f'part {self.part}' if self.part else 'another process'} ({self.host}, process {self.process})"


def identity(**more: str) -> str:
    """Return what a process writes into its file."""
    import psutil

    holder = {"host": platform.node(), "place": process_namespace(), "process": os.getpid()}
    return json.dumps(holder | {"started": psutil.Process().create_time(), **more})


def holder_of(file: Location, now_s: float) -> Holder | None:
    """Return whose file it is; None if it is gone. now_s: by the clock of the store."""
    content: object = None
    try:
        age_s = max(now_s - file.stat().st_mtime_ns / 1e9, 0.0)
        with contextlib.suppress(ValueError):
            content = read_json(file, CONFIG_BYTES)
    except FileNotFoundError:
        return None  # it has just ended
    holder: Mapping[str, Any] = content if isinstance(content, dict) else {}
    process, is_here = holder.get("process"), holder.get("place") == process_namespace()
    known = is_here and isinstance(process, int) and process > 0
    return Holder(
        file,
        host=str(holder.get("host")),
        process=process if isinstance(process, int) else 0,
        part=str(holder.get("part", "")),
        ended=str(holder.get("ended", "")),
        seen_s=age_s,
        is_here=is_here,
        stale=age_s > stale_s(file) or (known and not is_alive(process or 0, holder.get("started"))),
    )


def stale_s(file: Location) -> float:
    """Return the seconds after which a file that is not refreshed is that of a dead process."""
    return STALE_S + LATE_S if isinstance(file, Path) else STALE_S


@contextlib.contextmanager
def registered(directory: Location, own: Location, content: str, *, is_lost: Callable[[], bool]) -> Iterator[None]:
    """Have a file of this process, and refresh it, during the block.

    is_lost: whether another process took over in the minutes in which this one was suspended. Raises as `write_whole`.
    """
    released = threading.Event()

    def refresh() -> None:
        written_s = time.time()  # by the clock that runs while the machine is suspended
        while not released.wait(REFRESH_S):
            with contextlib.suppress(OSError, PipelineError):  # what does not answer now may the next time
                if not own.exists():
                    return  # another run removed it: `require_ours` reports that
                os.utime(own) if isinstance(own, Path) else write_whole(own, content)  # by the server's clock
                late, written_s = time.time() - written_s > STALE_S, time.time()
                if late and is_lost():  # it was made again
                    remove(own)
                    return

    refreshing = threading.Thread(target=refresh, name="lock", daemon=True)
    write_whole(own, content)
    refreshing.start()
    _held[directory] = own
    try:
        yield
    finally:
        _held.pop(directory, None)
        released.set()
        refreshing.join()


def own_file(directory: Location) -> Location | None:
    """Return the file of this process in a directory, if it is registered there."""
    return _held.get(directory)


def part_file(directory: Location, part: str, ending: str) -> Location:
    """Return a file of this process, which works as a part: its registration (json) or its log."""
    return directory / PARTS / f"{part.replace('/', '-of-')}.{own_mark()}.{ending}"


def parts_of(directory: Location, now_s: float | None = None) -> list[Holder]:
    """List the processes that work, or worked, in a directory as parts. now_s: by the clock of its files."""
    home = directory / PARTS
    names = [name for name in files_of_parts(home) if name[0] != "." and name.endswith(".json")]
    found = [holder_of(home / name, time.time() if now_s is None else now_s) for name in names]
    return [holder for holder in found if holder is not None and re.fullmatch("[0-9]+/[0-9]+", holder.part)]


def files_of_parts(home: Location) -> list[str]:
    """List the names of files of parts in `parts/`. Links and what is no regular file are foreign."""
    names = []
    with contextlib.suppress(NotADirectoryError):
        names = [name for name in names_in(home) if OF_PART.fullmatch(name)]
    return [name for name in names if not isinstance(home, Path) or _is_regular(home / name)]


def _is_regular(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # it has just ended
        return S_ISREG(path.lstat().st_mode)
    return False
