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

_spent: dict[str, float] = {}  # in the controller
_most: dict[str, float] = {}  # of them, those that must not take longer
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
    report.cpu_s, report.cpu_most_s = cpu_s() - _since, None
    if not {"slow", "cluster", "page"} & {mark.name for mark in item.iter_markers()}:
        report.cpu_most_s = MOST_S * (_slowness() if report.cpu_s > MOST_S / 2 else 1.0)
    return report


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" and hasattr(report, "cpu_s"):  # else xdist's own, of a test in which its worker crashed
        _spent[report.nodeid] = report.cpu_s
        if report.cpu_most_s is not None:
            _most[report.nodeid] = report.cpu_most_s


def _too_slow() -> list[str]:
    return [name for name, most in _most.items() if _spent[name] > most] if os.environ.get("CI") == "true" else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _too_slow() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _spent:
        return
    terminalreporter.section(f"slowest {SLOWEST} of {sum(_spent.values()):.0f} s of CPU")
    for name in sorted(_spent, key=_spent.__getitem__, reverse=True)[:SLOWEST]:
        terminalreporter.line(f"{_spent[name]:6.2f} s  {name}")
    for name in _too_slow():
        took = f"{_spent[name]:.1f} s of CPU, more than {_most[name]:.1f} s"
        terminalreporter.line(f"{name} takes {took}: mark it slow", red=True)
