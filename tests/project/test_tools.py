"""The tools of tests/support: the CPU time of tests, mutations that match the source, a fuzzer whose targets run."""

import os
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import cpu_time
import pytest
from mutations import Mutation, read_mutations

HOME = Path(__file__).parents[2]
MUTATIONS = read_mutations()


def python(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", *words], capture_output=True, text=True, check=False, **options)


_TESTS = """
import cpu_time, pytest
cpu_time.MOST_S = 0.1
def test_quick(): pass
{mark}
def test_long():
    for _ in range(10):  # 0.4 s on an idle machine, and as many times longer elsewhere as the limit is
        cpu_time._slowness()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ci", "mark", "failed"), [("true", "", True), ("", "", False), ("true", "@pytest.mark.slow", False)]
)
def test_a_default_test_that_takes_too_long_fails_in_ci(ci: str, mark: str, failed: bool, tmp_path: Path) -> None:
    (tmp_path / "test_times.py").write_text(_TESTS.format(mark=mark))
    environment = {**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["PYTHONPATH"] = str(Path(cpu_time.__file__).parent)
    done = python("-m", "pytest", "-q", "-p", "cpu_time", "-p", "no:cacheprovider", cwd=tmp_path, env=environment)
    assert done.returncode == failed, done.stdout
    assert "2 passed" in done.stdout
    assert " s  test_times.py::test_long\n" in done.stdout.partition("slowest 10 of ")[2]
    too_slow = [line.split()[0] for line in done.stdout.splitlines() if line.endswith(": mark it slow")]
    assert too_slow == ["test_times.py::test_long"] * failed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=attrgetter("name"))
def test_a_mutation_matches_one_line(mutation: Mutation) -> None:
    text = (HOME / "pipeline" / mutation.file).read_text()
    assert text.count(mutation.right) == 1
    assert mutation.right != mutation.wrong
    for test in mutation.tests:
        file, _, function = test.partition("::")
        assert f"def {function}" in (HOME / "tests" / file).read_text()


@pytest.mark.slow
def test_every_target_of_the_fuzzer_runs() -> None:
    done = python(HOME / "tests" / "fuzz", "--inputs", "20", "--seconds", "300")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" 20 inputs") > 1
