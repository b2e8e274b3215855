"""Kill workers when they write a counter: a module that the fork server preloads in tests.

The variable DYING is a JSON list: how (`kill`, `segfault`, `exit`, `raise`, `terminate`, `no memory`), the counter's
file name, how often, and a directory for files that count the deaths.
"""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

from pipeline.counts import count_worker

_how, _name, _times, _marks = json.loads(os.environ["DYING"])
_write_counter = count_worker.write_counter


def _die() -> None:
    if _how in ("raise", "no memory"):
        raise RuntimeError("from the core") if _how == "raise" else MemoryError
    if _how == "exit":
        os._exit(3)
    number = {"kill": signal.SIGKILL, "segfault": signal.SIGSEGV, "terminate": signal.SIGTERM}[_how]
    threading.Thread(target=os.kill, args=(os.getpid(), number)).start()
    signal.pause()


def _write_or_die(path: Path, *arguments: Any, **options: Any) -> int:
    mark = Path(_marks, f"{len([*Path(_marks).iterdir()])}")
    if path.name == _name and int(mark.name) < _times:
        mark.touch()
        _die()
    return _write_counter(path, *arguments, **options)


count_worker.write_counter = _write_or_die
