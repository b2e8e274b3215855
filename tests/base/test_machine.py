"""Cores, memory, and the watch over memory."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from bpe_pipeline.base import machine


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "50000 100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3.0),  # control groups, version 1
    ],
)
def test_default_workers_respect_the_cpu_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files, quota) -> None:
    assert 1 <= machine.default_workers() <= (os.cpu_count() or 1)
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 64 if logical else 32)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert machine.cpu_quota() == quota
    assert machine.default_workers() == (32 if quota is None else max(1, int(quota + 0.5)))


@pytest.mark.parametrize(
    ("own", "root", "limit", "used", "cached"),
    [
        ("0::/a/b\n", "", "memory.max", "memory.current", "inactive_file"),
        (
            "12:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n",
            "memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
    ],
)
def test_available_memory_respects_limits_of_nested_groups(tmp_path: Path, monkeypatch, own, root, limit, used, cached):
    """The smallest of all limits counts, without unused pages of files; `max` is none."""
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(machine, "_OWN_CGROUPS", tmp_path / "own")
    group = tmp_path / root / "a" / "b"
    group.mkdir(parents=True)

    def available(group: Path, most: str, used_bytes: int) -> int:
        (group / limit).write_text(f"{most}\n")
        (group / used).write_text(f"{used_bytes}\n")
        return machine.available_memory()

    assert 600_000 < machine.available_memory() <= psutil.virtual_memory().total
    assert available(tmp_path / root, "1000000", 400_000) == 600_000
    assert available(tmp_path / root, "max", 400_000) > 600_000
    (tmp_path / "own").write_text(own)
    assert available(group, "5000000", 2_000_000) == 3_000_000
    (group / "memory.stat").write_text(f"anon 7\n{cached} 500000\n")
    assert machine.available_memory() == 3_500_000
    assert available(group.parent, "3000000", 2_900_000) == 100_000
    assert available(group.parent, "3000000", 3_100_000) == 0


def test_watch_sees_allocated_memory() -> None:
    with machine.MemoryWatch(interval_s=0.01) as watch:
        time.sleep(0.05)
        before = watch.peak_bytes
        block = bytearray(b"x") * (256 << 20)
        deadline = time.monotonic() + 20
        while watch.peak_bytes - before < 128 << 20 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert watch.peak_bytes - before >= 128 << 20  # other processes of the tests start and end meanwhile
    assert len(block) == 256 << 20
    assert not watch.exceeded
    with machine.MemoryWatch(interval_s=60, limit_bytes=1) as watch:
        for stage in ("first", "second", "third"):  # which end at once
            watch.begin(stage)
    assert watch.exceeded
    assert list(watch.stage_peaks) == ["first", "second", "third"]
    assert 0 < min(watch.stage_peaks.values()) <= watch.peak_bytes


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell a process's pages")
def test_watch_sees_a_short_peak_of_another_process_between_two_measurements() -> None:
    program = "import sys, time; sys.stdin.read(1); block = bytearray(b'x') * (312 << 20); time.sleep(0.3); del block; "
    child = subprocess.Popen([sys.executable, "-c", program + "print(1, flush=True); input()"], stdin=-1, stdout=-1)
    assert child.stdin
    assert child.stdout
    with machine.MemoryWatch(interval_s=60) as watch:
        watch.begin("stage")
        watch.look()
        before = watch.peak_bytes
        child.stdin.write(b"x\n")
        child.stdin.flush()
        assert child.stdout.readline()
    child.communicate(b"\n")
    assert 295 << 20 <= watch.peak_bytes - before <= 330 << 20
    assert watch.stage_peaks == {"stage": watch.peak_bytes}


@pytest.mark.parametrize("listed", [True, False])
def test_the_tree_has_processes_that_threads_and_children_started(monkeypatch: pytest.MonkeyPatch, *, listed) -> None:
    monkeypatch.setattr(machine, "_CHILDREN_LISTED", listed and machine._CHILDREN_LISTED)
    grandchild = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with ThreadPoolExecutor(1) as pool:
        child = pool.submit(subprocess.Popen, [sys.executable, "-c", grandchild], stdin=-1, stdout=-1).result()
        assert child.stdout
        assert child.stdout.readline()
        started = {process.pid for process in psutil.Process(child.pid).children()}
        assert len(started) == 1
        assert {os.getpid(), child.pid, *started} <= set(machine._memory_by_process())
        child.communicate(b"\n")


def test_watch_continues_after_a_failed_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = chain([OSError(24, "Too many open files"), {0: (5, 0)}, {0: (3, 0)}], repeat({0: (1, 0)}))
    look = Mock(side_effect=answers)
    monkeypatch.setattr(machine, "_memory_by_process", look)
    with machine.MemoryWatch(interval_s=0.001) as watch:
        while look.call_count < 4:
            time.sleep(0.001)
    assert watch.peak_bytes == 5
