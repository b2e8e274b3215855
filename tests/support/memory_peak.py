"""How much memory a process takes from one moment on, asked from within the process itself."""

import resource
import sys
from collections.abc import Callable
from pathlib import Path

_FORGET = Path("/proc/self/clear_refs")  # Linux: writing "5" makes the present size the peak


def _status(field: str) -> int:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) << 10


def growth() -> Callable[[], int]:
    """A function that tells by how many bytes the process, at its largest, grew beyond what it is now.

    Not `ru_maxrss` where it can be helped: Linux lets a process begin with the peak of the one that started it.
    """
    if _FORGET.exists():
        _FORGET.write_text("5")
        before = _status("VmRSS")
        return lambda: _status("VmHWM") - before
    unit = 1 if sys.platform == "darwin" else 1024
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - largest
