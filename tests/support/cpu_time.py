"""The CPU time of each test: the ten slowest are printed, and in CI a default test that takes too long is a failure.

The same work takes more CPU seconds where the machine is slower, shared with others or traced. So a short loop is timed
right after whatever took long, and the most is multiplied by how many times longer that took than on an idle machine.
"""

import os
import resource
import time
from collections.abc import Iterator
from typing import Any

import pytest

MOST_S = 5.0  # of a test that runs by default; what it shares with others does not count
SLOWEST = 10
LOOP_S = 0.04  # what `_slowness` times, on an idle machine

_spent: dict[str, tuple[float, float]] = {}  # in the controller: what each test took, and may take
_since = 0.0


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def _slowness() -> float:
    started, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number & 3
    return max(1.0, (time.process_time() - started) / LOOP_S)


def pytest_runtest_logstart() -> None:
    global _since
    _since = cpu_s()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    """Leave out what a test shares with others."""
    global _since
    before, started = _since, cpu_s()
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            _since = before + cpu_s() - started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: Any = yield
    spent, most = cpu_s() - _since, float("inf")
    if not {"slow", "cluster", "page"} & {mark.name for mark in item.iter_markers()}:
        most = MOST_S * (_slowness() if spent > MOST_S / 2 else 1.0)
    report.cpu_s = spent, most
    return report


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" and hasattr(report, "cpu_s"):  # else xdist's own, of a test in which its worker crashed
        _spent[report.nodeid] = report.cpu_s


def _too_slow() -> list[str]:
    return [name for name, (s, most) in _spent.items() if s > most] if os.environ.get("CI") == "true" else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _too_slow() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _spent:
        return
    terminalreporter.section(f"slowest {SLOWEST} of {sum(s for s, _ in _spent.values()):.0f} s of CPU")
    for name in sorted(_spent, key=_spent.__getitem__, reverse=True)[:SLOWEST]:
        terminalreporter.line(f"{_spent[name][0]:6.2f} s  {name}")
    for name in _too_slow():
        took = "{:.1f} s of CPU, more than {:.1f} s".format(*_spent[name])
        terminalreporter.line(f"{name} takes {took}: mark it slow", red=True)
