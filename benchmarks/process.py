"""Runs one command in a fresh process and measures it from outside: wall clock, CPU, memory, its whole tree.

Memory is the peak over time of the sum of proportional set sizes (PSS: each shared page counted once,
divided among those who share it) of the command and all its descendants. It is sampled, so a spike shorter
than the pause can be missed; `largest_rss_bytes`, kept by the system, bounds what one process alone ever
held. Where there is no PSS (macOS) the sum of resident sizes is used instead and the record says so.
"""

import math
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

SHORTEST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0
SAMPLING_SHARE = 0.05  # of one core, at most: reading PSS walks the page tables of the measured process
HAS_PSS = Path("/proc/self/smaps_rollup").exists()


@dataclass(frozen=True)
class Memory:
    """Bytes held by a tree of processes at one moment."""

    total: int  # PSS, or RSS where there is no PSS
    anonymous: int  # the part that no file backs, which cannot be dropped and read again; 0 where unknown
    processes: int


@dataclass(frozen=True)
class Measurement:
    """Time and memory of one run of a command."""

    status: str  # "ok", "failed", "timeout" or "memory"
    exit_code: int
    wall_s: float
    user_s: float
    system_s: float
    peak_memory_bytes: int
    peak_anonymous_bytes: int
    largest_rss_bytes: int
    memory_kind: str  # "pss" or "rss"
    memory_samples: int
    most_processes: int
    stdout: str
    stderr: str


def process_memory(process: psutil.Process) -> tuple[int, int]:
    """(total, anonymous) bytes of one process; zeros once it has ended."""
    try:
        if not HAS_PSS:
            return process.memory_info().rss, 0
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text("ascii").splitlines()[1:]
        )
        pss, anonymous = fields.get("Pss", "0 kB"), fields.get("Pss_Anon", "0 kB")
        return int(pss.split()[0]) * 1024, int(anonymous.split()[0]) * 1024
    except (OSError, psutil.Error):
        return 0, 0


def tree_memory(pid: int) -> Memory:
    """Memory of a process and all its descendants now."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.Error:
        return Memory(0, 0, 0)
    held = [process_memory(process) for process in tree]
    return Memory(sum(total for total, _ in held), sum(anonymous for _, anonymous in held), len(tree))


class _Waiter(threading.Thread):
    """Waits for the child's end without polling, so that the clock stops when it ends."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.ended = threading.Event()
        self.end_s = 0.0
        self.status = 0
        self.user_s = 0.0
        self.system_s = 0.0
        self.largest_rss_bytes = 0

    def run(self) -> None:
        _, self.status, usage = os.wait4(self.pid, 0)
        self.end_s = time.perf_counter()
        self.user_s, self.system_s = usage.ru_utime, usage.ru_stime
        self.largest_rss_bytes = usage.ru_maxrss * (1024 if HAS_PSS else 1)
        self.ended.set()


def measure(
    argv: Sequence[str],
    *,
    timeout_s: float,
    directory: Path,
    environment: dict[str, str] | None,
    most_bytes: float = math.inf,
    until: Path | None = None,
) -> Measurement:
    """Run `argv` in `directory` until it ends, `timeout_s` have passed or it holds more than `most_bytes`.

    In the last two cases its process group is killed. until: a file; once it is there, memory is not sampled for the
    peaks, and `largest_rss_bytes` is still of the whole run.
    """
    peak, peak_anonymous, most_processes, samples, stopped = 0, 0, 0, 0, ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        child = subprocess.Popen(list(argv), cwd=directory, env=environment, start_new_session=True, **streams)
        waiter = _Waiter(child.pid)
        waiter.start()
        try:
            pause_s = SHORTEST_PAUSE_S
            while not waiter.ended.wait(pause_s):
                before = time.perf_counter()
                now = tree_memory(child.pid)
                if until is None or not until.exists():
                    samples += 1
                    peak, peak_anonymous = max(peak, now.total), max(peak_anonymous, now.anonymous)
                most_processes = max(most_processes, now.processes)
                cost_s = time.perf_counter() - before
                pause_s = min(max(cost_s / SAMPLING_SHARE, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
                stopped = "timeout" if before - started > timeout_s else "memory" if now.total > most_bytes else ""
                if stopped:
                    break
        finally:
            if not waiter.ended.is_set():
                os.killpg(child.pid, signal.SIGKILL)
            waiter.join()
            child.returncode = os.waitstatus_to_exitcode(waiter.status)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", errors="replace"))
    ok = "ok" if child.returncode == 0 else "failed"
    return Measurement(
        status=stopped or ok,
        exit_code=child.returncode,
        wall_s=waiter.end_s - started,
        user_s=waiter.user_s,
        system_s=waiter.system_s,
        peak_memory_bytes=peak,
        peak_anonymous_bytes=peak_anonymous,
        largest_rss_bytes=waiter.largest_rss_bytes,
        memory_kind="pss" if HAS_PSS else "rss",
        memory_samples=samples,
        most_processes=most_processes,
        stdout=texts[0],
        stderr=texts[1],
    )
