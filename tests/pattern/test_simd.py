"""One binary for several instruction sets: each cuts the same pieces, and a variable chooses one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import _core

SUPPORT = Path(__file__).parents[1] / "support"


def digest_of(name: str, seed: int, size: int) -> str:
    """What tests/support/cut_alike.py prints, which also compares every text with the plain automaton."""
    command = [sys.executable, str(SUPPORT / "cut_alike.py"), str(seed), str(size)]
    run = subprocess.run(
        command, env={**os.environ, "BPE_PIPELINE_SIMD": name}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    used, digest = run.stdout.split()
    assert used == name
    return digest


def test_every_instruction_set_cuts_the_same_pieces() -> None:
    assert len({digest_of(name, 1, 100_000) for name in _core.simd()}) == 1


@pytest.mark.slow
@pytest.mark.one_of(4)
@pytest.mark.parametrize("seed", range(2, 6))
def test_every_instruction_set_cuts_millions_of_bytes_alike(seed: int) -> None:
    assert len({digest_of(name, seed, 3_000_000) for name in _core.simd()}) == 1


def test_the_baseline_runs_everywhere() -> None:
    assert "baseline" in _core.simd()


def test_instructions_that_the_machine_does_not_have_are_an_error() -> None:
    environment = {**os.environ, "BPE_PIPELINE_SIMD": "mmx"}
    run = subprocess.run(
        [sys.executable, "-m", "pipeline", "version"], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "BPE_PIPELINE_SIMD=mmx: this machine runs" in run.stderr
    assert "baseline" in run.stderr
    assert "Traceback" not in run.stderr
