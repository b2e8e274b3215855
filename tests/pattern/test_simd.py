"""One binary for several instruction sets: each cuts the same pieces, and a variable chooses one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import _core

SUPPORT = Path(__file__).parents[1] / "support"


def python(simd: str, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BPE_PIPELINE_SIMD": simd}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def digest_of(name: str, seed: int, size: int) -> str:
    """What tests/support/cut_alike.py prints, which also compares every text with the plain automaton."""
    run = python(name, SUPPORT / "cut_alike.py", seed, size)
    assert run.returncode == 0, run.stderr
    used, digest = run.stdout.split()
    assert used == name
    return digest


def test_the_baseline_runs_everywhere_and_other_instructions_are_an_error() -> None:
    assert "baseline" in _core.simd()
    run = python("mmx", "-m", "pipeline", "version")
    assert run.returncode == 1
    assert "BPE_PIPELINE_SIMD=mmx: this machine runs" in run.stderr
    assert "baseline" in run.stderr
    assert "Traceback" not in run.stderr


def test_every_instruction_set_cuts_the_same_pieces() -> None:
    assert len({digest_of(name, 1, 100_000) for name in _core.simd()}) == 1


@pytest.mark.slow
@pytest.mark.one_of(4)
@pytest.mark.parametrize("seed", range(2, 6))
def test_every_instruction_set_cuts_millions_of_bytes_alike(seed: int) -> None:
    assert len({digest_of(name, seed, 3_000_000) for name in _core.simd()}) == 1
