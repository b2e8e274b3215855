"""What this machine gives a run: cores, memory, versions; and what the run takes of it.

Everything here is measured, nothing is decided for a run except the two defaults that depend on the machine: the
number of workers and the bytes of a chunk. Containers count: a CPU quota or a memory limit of the control group
is as real as the hardware.
"""

import contextlib
import os
import platform
import sys
import threading
import time
from pathlib import Path

import psutil

from pipeline import __version__

_CGROUP, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
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
    """Bytes that can still be taken without swapping, the limits of all control groups around us considered."""
    available = psutil.virtual_memory().available
    for group in _memory_groups():
        left = _left_in(group, "memory.max", "memory.current", "inactive_file")
        if left is None:
            left = _left_in(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        if left is not None:
            available = min(available, left)
    return available


def _memory_groups() -> list[Path]:
    """The directories of the control groups that limit our memory, of both versions, from our own up to the root.

    A container sees its own group as the root, whatever its process is told its path is: the root always counts.
    """
    paths = {_CGROUP: "/", _CGROUP / "memory": "/"}
    for line in (_read_first(_OWN_CGROUPS) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            paths[_CGROUP] = path
        elif "memory" in controllers.split(","):
            paths[_CGROUP / "memory"] = path
    groups = []
    for root, path in paths.items():
        own = root / path.strip("/")
        groups += [own, *(parent for parent in own.parents if parent == root or root in parent.parents)]
    return groups


def _left_in(group: Path, limit_name: str, used_name: str, cache_name: str) -> int | None:
    """Bytes that a control group leaves us; pages of files that nobody uses are given back when they are wanted."""
    limit, used = _read_first(group / limit_name), _read_first(group / used_name)
    if limit is None or used is None or not limit.isdigit() or not used.isdigit():
        return None
    cached = 0
    for line in (_read_first(group / "memory.stat") or "").splitlines():
        name, _, number = line.partition(" ")
        if name == cache_name and number.isdigit():
            cached = int(number)
    return max(0, int(limit) - max(0, int(used) - cached))


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
        "installed in": str(Path(__file__).parent),
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
    for name in ("ray", "tokenizers", "transformers", "tiktoken", "plotly"):
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


def own_memory() -> int:
    """Bytes of memory of this process alone."""
    return _process_memory(psutil.Process())


def _process_memory(process: psutil.Process) -> int:
    try:
        info = process.memory_full_info()
    except psutil.AccessDenied:
        return process.memory_info().rss
    return getattr(info, "pss", 0) or getattr(info, "uss", 0) or info.rss


class MemoryWatch:
    """Watches the process tree's memory while a block runs; `peak_bytes` is the largest sum seen.

    With `limit_bytes`, `exceeded` tells whether the sum went beyond it. `stage_peaks`: the largest sum seen since each
    stage began, until the next one did.
    """

    def __init__(self, limit_bytes: int | None = None, interval_s: float = 0.25) -> None:
        self.peak_bytes = 0
        self.limit_bytes = limit_bytes
        self.stage_peaks: dict[str, int] = {}
        self._stage = ""
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

    def begin(self, stage: str) -> None:
        """Another stage begins: what is taken now is the peak of the one before, or beyond."""
        self.look()
        self._stage = stage

    def look(self) -> None:
        """Measure once, now; where the system has no file open for it, the next look may see."""
        with contextlib.suppress(OSError):
            now = process_tree_memory()
            self.peak_bytes = max(self.peak_bytes, now)
            if self._stage:
                self.stage_peaks[self._stage] = max(self.stage_peaks.get(self._stage, 0), now)

    def _watch(self) -> None:
        pause_s = self._interval_s
        while not self._stop.wait(pause_s):
            started_s = time.thread_time()
            self.look()
            # Looking takes longer the more memory there is: at most a fiftieth of a core.
            pause_s = max(self._interval_s, 50 * (time.thread_time() - started_s))
