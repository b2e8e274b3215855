"""Describes the machine of a measurement; no host name, no user, no paths."""

import contextlib
import hashlib
import os
import platform
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil


def cpu_model() -> str:
    """Return the processor's name as the system reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model") and value.strip():
                return value.strip()
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        brand = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
        return brand.stdout.strip()
    return platform.processor() or platform.machine()


def operating_system() -> str:
    """Distribution or system, its release and the architecture."""
    name = f"{platform.system()} {platform.release().split('-')[0]}"
    with contextlib.suppress(OSError):
        name = f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {name}"
    return f"{name}, {platform.machine()}"


def describe() -> dict[str, Any]:
    """What a reader needs in order to judge the figures."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": cpu_model(),
        "physical_cores": psutil.cpu_count(logical=False),
        "usable_cores": usable,
        "memory_bytes": psutil.virtual_memory().total,
        "os": operating_system(),
        "python": platform.python_version(),
    }


def reference_s() -> float:
    """Seconds of the reference loop, the best of five: every usable core hashes 64 MB.

    Taken before and after each round: it takes longer while others use the machine or its clock is slower.
    """
    cores, block, times = describe()["usable_cores"], bytes(64_000_000), []
    with ThreadPoolExecutor(cores) as threads:
        for _ in range(5):
            started = time.perf_counter()
            list(threads.map(lambda _: hashlib.blake2b(block).digest(), range(cores)))
            times.append(time.perf_counter() - started)
    return min(times)
