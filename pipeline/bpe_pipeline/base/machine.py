"""Cores, memory and versions of this machine, within the limits of control groups (containers)."""

import contextlib
import os
import platform
import sys
import threading
import time
from functools import cache
from pathlib import Path

import psutil

from bpe_pipeline import __version__
from bpe_pipeline.base.errors import StorageError, os_error_as

_CGROUP, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_INTERVAL_S, _QUICK_S = 0.25, 0.05  # between measurements of memory, and between quick looks at it
_CHILDREN_LISTED = Path("/proc/thread-self/children").exists()
_MEMORY_FILES = (  # limit, usage and the key in memory.stat, in both versions of control groups
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def _read(path: Path) -> str:
    """Return the text of a file of the system, "" if there is none."""
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return ""


def cpu_quota() -> float | None:
    """Return the control group's CPU quota in cores, or None if it has none."""
    version_1 = " ".join(_read(_CGROUP / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    quota, period = [*(_read(_CGROUP / "cpu.max") or version_1).split(), "max", "100000"][:2]
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def default_workers() -> int:
    """Return the number of physical cores that this process may use under its CPU affinity and CPU quota."""
    cores = min(psutil.cpu_count(logical=False) or psutil.cpu_count() or 1, usable_cores())
    quota = cpu_quota()
    return max(1, cores if quota is None else min(cores, int(quota + 0.5)))


def available_memory() -> int:
    """Return the bytes that can be allocated without swapping, within the limits of all enclosing control groups."""
    left = [_available_in(group, *names) for group in _memory_groups() for names in _MEMORY_FILES]
    with os_error_as(StorageError, "the free memory cannot be read from /proc/meminfo", "mount /proc"):
        of_machine = psutil.virtual_memory().available
    return min([of_machine, *(number for number in left if number is not None)])


def _memory_groups() -> list[Path]:
    """Return the directories of the control groups, of both versions, from this process's own up to the root.

    A container sees its own group as the root, even if its process is given another path: the root always counts.
    """
    paths = {_CGROUP: "/", _CGROUP / "memory": "/"}
    for line in _read(_OWN_CGROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            paths[_CGROUP] = path
        elif "memory" in controllers.split(","):
            paths[_CGROUP / "memory"] = path
    groups = []
    for root, path in paths.items():
        group = root / path.strip("/")
        groups += [group, *(parent for parent in group.parents if parent == root or root in parent.parents)]
    return groups


def _available_in(group: Path, limit_name: str, used_name: str, cache_name: str) -> int | None:
    """Return the bytes left under a group's limit, if it has one; inactive pages of its file cache count as free."""
    limit = _read(group / limit_name)
    used = _read(group / used_name) if limit.isdigit() else ""
    if not used.isdigit():
        return None
    facts = dict(line.partition(" ")[::2] for line in _read(group / "memory.stat").splitlines())
    cached = int(facts[cache_name]) if facts.get(cache_name, "").isdigit() else 0
    return max(0, int(limit) - max(0, int(used) - cached))


def describe() -> dict[str, str]:
    """Return what a bug report needs: the machine, and versions of everything that can change a run."""
    from bpe_pipeline import _core

    facts = {
        "python": f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})",
        "installed in": str(Path(__file__).parents[1]),
        "platform": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "vector instructions": "{} (of {})".format((names := _core.simd())[0], ", ".join(names)),
        "physical cores": str(psutil.cpu_count(logical=False) or "unknown"),
        "logical cores": str(psutil.cpu_count() or "unknown"),
        "CPU quota": "none" if (quota := cpu_quota()) is None else f"{quota:g} cores",
        "default workers": str(default_workers()),
        "memory": f"{psutil.virtual_memory().total:,} bytes",
        "memory available": f"{available_memory():,} bytes",
    }
    required = ("psutil", "msgspec", "multiprocessing-logging", "click", "jinja2", "rich", "pyyaml", "wcmatch")
    optional = ("ray", "tokenizers", "transformers", "tiktoken", "gguf", "vl-convert-python")
    facts |= versions() | {name: _version(name) for name in required}
    return facts | {f"{name} (optional)": _version(name) for name in optional}


def versions() -> dict[str, str]:
    """Return the versions of what can change the result of a run."""
    return {"bpe-pipeline": __version__, "regex": _version("regex"), "pyarrow": _version("pyarrow")}


def usable_cores() -> int:
    """Return the number of cores that threads of this process can run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _version(distribution: str) -> str:
    from importlib import metadata  # takes 25 ms, which not every start needs

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def process_tree_memory() -> int:
    """Return the bytes of memory of this process and its children, shared pages counted once if the system can.

    Linux: the sum of proportional set sizes; elsewhere: of unique set sizes (macOS) or resident set sizes.
    """
    return sum(size for size, _ in _memory_by_process().values())


def _memory_by_process() -> dict[int, tuple[int, int]]:
    """Return the memory of each process, and its unshared memory then: at most, if it changed while it was measured."""
    memory = {}
    for process in _process_tree():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            before = _unshared_memory(process)
            size = _process_memory(process)
            memory[process] = size, max(before, _unshared_memory(process))
    return memory


def _process_tree() -> list[int]:
    """Return the numbers of this process and of all that it started, and they in turn."""
    if not _CHILDREN_LISTED:
        this = psutil.Process()
        return [this.pid, *(child.pid for child in this.children(recursive=True))]
    processes = [os.getpid()]
    for process in processes:  # it grows; psutil would look at every process of the machine
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                processes += map(int, (thread / "children").read_text().split())
    return processes


def _unshared_memory(process: int) -> int:
    """Return the bytes of a process's pages that are of no file; 0 if it is gone or the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        resident, of_files = Path(f"/proc/{process}/statm").read_text().split()[1:3]
        return (int(resident) - int(of_files)) * _PAGE_BYTES
    return 0


def own_memory() -> int:
    """Return the bytes of memory of this process alone."""
    return _process_memory(os.getpid())


def _process_memory(number: int) -> int:
    process = psutil.Process(number)
    try:
        info = process.memory_full_info()
    except psutil.AccessDenied:
        return process.memory_info().rss
    return getattr(info, "pss", 0) or getattr(info, "uss", 0) or info.rss


class MemoryWatch:
    """Measure the process tree's memory in a thread while a block runs: its peak, and that of each stage.

    Measuring takes longer the more memory there is. On Linux, how much processes have grown since then is looked at in
    between, which takes no time, so that no short peak is missed. ease: so many times less often.
    """

    def __init__(self, limit_bytes: int | None = None, interval_s: float = _INTERVAL_S, ease: int = 1) -> None:
        self.peak_bytes = 0
        self.limit_bytes = limit_bytes
        self.stage_peaks: dict[str, int] = {}
        self._stages = [""]  # those that have ended since the last measurement, and the current one
        self._measured: dict[int, tuple[int, int]] = {}  # of each process, and its unshared memory then
        self._interval_s, self._ease = interval_s * ease, ease
        self._measuring = threading.Lock()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)

    @property
    def exceeded(self) -> bool:
        """Return whether the sum was over `limit_bytes` at any time so far."""
        return self.limit_bytes is not None and self.peak_bytes > self.limit_bytes

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join()
        self.look()

    def begin(self, stage: str) -> None:
        """Start another stage, and let the thread measure; memory used then still counts for the previous one."""
        self._stages.append(stage)
        self._wake.set()

    def look(self) -> None:
        """Measure once, now; skip it if the system has no file descriptor left."""
        with self._measuring, contextlib.suppress(OSError):
            current = len(self._stages) - 1
            self._measured = _memory_by_process()
            self._note(sum(size for size, _ in self._measured.values()))
            del self._stages[:current]

    def _note(self, now: int) -> None:
        self.peak_bytes = max(self.peak_bytes, now)
        for stage in filter(None, self._stages):
            self.stage_peaks[stage] = max(self.stage_peaks.get(stage, 0), now)

    def _look_quickly(self) -> None:
        now = {process: _unshared_memory(process) for process in self._measured}
        measured = list(self._measured.items())
        self._note(sum(max(size + now[process] - then, 0) for process, (size, then) in measured if now.get(process)))

    def _watch(self) -> None:
        pause_s = self._interval_s
        next_s = time.monotonic() + pause_s
        while not self._stop.is_set():
            if not self._wake.wait(min(pause_s, _QUICK_S * self._ease)) and time.monotonic() < next_s:
                self._look_quickly()
                continue
            self._wake.clear()
            if self._stop.is_set():
                return
            started_s = time.thread_time()
            self.look()
            pause_s = max(self._interval_s, 50 * self._ease * (time.thread_time() - started_s))  # at most 2 % of a core
            next_s = time.monotonic() + pause_s
