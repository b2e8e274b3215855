"""Kill workers when they write a counter: what the fork server preloads in tests.

The variable DYING is a JSON list: how (`kill`, `segfault`, `exit`, `raise`, `terminate`, `no memory`), the start of
the name of the counter's file, how often, and a directory for files that count the deaths.
"""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

from bpe_pipeline.counts import count_worker

_write_counter = count_worker.write_counter


def _die(how: str) -> None:
    if how in ("raise", "no memory"):
        raise RuntimeError("from the core") if how == "raise" else MemoryError
    if how == "exit":
        os._exit(3)
    number = {"kill": signal.SIGKILL, "segfault": signal.SIGSEGV, "terminate": signal.SIGTERM}[how]
    threading.Thread(target=os.kill, args=(os.getpid(), number)).start()
    signal.pause()


def _write_or_die(path: Path, *arguments: Any, **options: Any) -> int:
    how, name, times, marks = json.loads(os.environ["DYING"])
    mark = Path(marks, f"{len([*Path(marks).iterdir()])}")
    if path.name.startswith(name) and int(mark.name) < times:
        mark.touch()
        _die(how)
    return _write_counter(path, *arguments, **options)


def let_workers_die() -> None:
    """Let the workers that are forked from here die."""
    count_worker.write_counter = _write_or_die
