"""tests/support/cpu_time.py: in CI, a default test that takes too much CPU fails the suite."""

import os
import subprocess
import sys
from pathlib import Path

import cpu_time
import pytest

_TESTS = """
import cpu_time, pytest
cpu_time.MOST_S = 0.1
def test_quick(): pass
{mark}
def test_long():
    for _ in range(10):  # 0.4 s on an idle machine, and as many times longer elsewhere as the limit is
        cpu_time._slowness()
"""


@pytest.mark.parametrize(
    ("ci", "mark", "failed"), [("true", "", True), ("", "", False), ("true", "@pytest.mark.slow", False)]
)
def test_a_default_test_that_takes_too_long_fails_in_ci(ci: str, mark: str, failed: bool, tmp_path: Path) -> None:
    (tmp_path / "test_times.py").write_text(_TESTS.format(mark=mark))
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "cpu_time", "-p", "no:cacheprovider"]
    environment = {**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["PYTHONPATH"] = str(Path(cpu_time.__file__).parent)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == failed, done.stdout
    assert "2 passed" in done.stdout
    assert " s  test_times.py::test_long\n" in done.stdout.partition("slowest 10 of ")[2]
    too_slow = [line.split()[0] for line in done.stdout.splitlines() if line.endswith(": mark it slow")]
    assert too_slow == ["test_times.py::test_long"] * failed
