"""The tools of tests/support: the CPU time of tests, mutations that match the source, a fuzzer whose targets run."""

import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest
from mutations import Mutation, read_mutations

HOME = Path(__file__).parents[2]
MUTATIONS = read_mutations()


def python(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", *words], capture_output=True, text=True, check=False, **options)


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
