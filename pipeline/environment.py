"""What this machine gives a run: cores, memory, versions; and what the run takes of it.

Everything here is measured, nothing is decided for a run except the two defaults that depend on the machine: the
number of workers and the bytes of a chunk. Containers count: a CPU quota or a memory limit of the control group
is as real as the hardware.
"""

import os
import platform
import sys
import threading
from pathlib import Path

import psutil

from pipeline import __version__

_CGROUP = Path("/sys/fs/cgroup")
_MIN_CHUNK_BYTES = 1 << 20
_MAX_CHUNK_BYTES = 128 << 20
# A worker's table of pieces, its sorted arrays and the write buffer take at most about this many bytes per byte
# of chunk on text with few repetitions (Chinese and Japanese prose).
WORKER_BYTES_PER_CHUNK_BYTE = 2.5


def _read_first(*paths: Path) -> str | None:
    for path in paths:
        try:
            return path.read_text().strip()
        except OSError:
            continue
    return None


def cpu_quota() -> float | None:
    """The control group's CPU quota in cores, or None where there is none."""
    text = _read_first(_CGROUP / "cpu.max")
    if text is not None:
        quota, period = [*text.split(), "100000"][:2]
        return None if quota == "max" else int(quota) / int(period)
    quota_us, period_us = (
        _read_first(_CGROUP / "cpu/cpu.cfs_quota_us"),
        _read_first(_CGROUP / "cpu/cpu.cfs_period_us"),
    )
    if quota_us is None or period_us is None or int(quota_us) <= 0:
        return None
    return int(quota_us) / int(period_us)


def default_workers() -> int:
    """Physical cores this process may use: fewer under a CPU affinity mask or a container's CPU quota."""
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    cores = min(cores, usable_cores())
    quota = cpu_quota()
    if quota is not None:
        cores = min(cores, int(quota + 0.5))
    return max(1, cores)


def available_memory() -> int:
    """Bytes that can still be taken without swapping, the container's limit considered."""
    available = psutil.virtual_memory().available
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, used = _read_first(_CGROUP / limit_name), _read_first(_CGROUP / used_name)
        if limit is not None and used is not None and limit.isdigit() and used.isdigit():
            available = min(available, max(0, int(limit) - int(used)))
    return available


def default_chunk_bytes(corpus_bytes: int, workers: int, memory_bytes: int) -> int:
    """Bytes of a chunk: as few chunks as memory allows, and as many for each worker, so that all end together.

    Every counter is put in order, written, and read again: fewer counters are less of that.
    """
    by_memory = int(memory_bytes / workers / WORKER_BYTES_PER_CHUNK_BYTE)
    most = max(_MIN_CHUNK_BYTES, min(by_memory, _MAX_CHUNK_BYTES))
    rounds = -(-corpus_bytes // (workers * most))
    return max(_MIN_CHUNK_BYTES, -(-corpus_bytes // (workers * max(1, rounds))))


def describe() -> dict[str, str]:
    """What a bug report needs: versions of everything that can change a run, and the machine."""
    facts = {
        "python": f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "machine": platform.machine(),
        "physical cores": str(psutil.cpu_count(logical=False) or "unknown"),
        "logical cores": str(psutil.cpu_count() or "unknown"),
        "CPU quota": "none" if (quota := cpu_quota()) is None else f"{quota:g} cores",
        "default workers": str(default_workers()),
        "memory": f"{psutil.virtual_memory().total:,} bytes",
        "memory available": f"{available_memory():,} bytes",
    }
    facts |= versions() | {
        name: _version(name) for name in ("psutil", "multiprocessing-logging", "click", "rich", "pyyaml")
    }
    for name in ("tokenizers", "transformers", "tiktoken"):
        facts[f"{name} (optional)"] = _version(name)
    return facts


def versions() -> dict[str, str]:
    """Versions of what can change the result of a run."""
    return {"bpe-pipeline": __version__, "regex": _version("regex"), "pyarrow": _version("pyarrow")}


def usable_cores() -> int:
    """Cores that threads of this process can really run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(distribution: str) -> str:
    from importlib import metadata  # a fortieth of a second, which no start needs

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def process_tree_memory() -> int:
    """Bytes of memory of this process and its children together, shared pages counted once where the system can.

    Linux: the sum of proportional set sizes; elsewhere: of unique set sizes (macOS) or resident set sizes.
    """
    total = 0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            total += _process_memory(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return total


def _process_memory(process: psutil.Process) -> int:
    try:
        info = process.memory_full_info()
    except psutil.AccessDenied:
        return process.memory_info().rss
    return getattr(info, "pss", 0) or getattr(info, "uss", 0) or info.rss


class MemoryWatch:
    """Watches the process tree's memory while a block runs; `peak_bytes` is the largest sum seen.

    With `limit_bytes`, `exceeded` tells whether the sum went beyond it.
    """

    def __init__(self, limit_bytes: int | None = None, interval_s: float = 0.25) -> None:
        self.peak_bytes = 0
        self.limit_bytes = limit_bytes
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)

    @property
    def exceeded(self) -> bool:
        """Whether the limit was passed at any look so far."""
        return self.limit_bytes is not None and self.peak_bytes > self.limit_bytes

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Measure once, now."""
        self.peak_bytes = max(self.peak_bytes, process_tree_memory())

    def _watch(self) -> None:
        while not self._stop.wait(self._interval_s):
            self.look()
