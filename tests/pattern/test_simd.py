"""One binary for several instruction sets: each cuts the same pre-tokens, and a variable chooses one."""

import pytest
from command import refused, run_process, script

from bpe_pipeline import _core


def test_the_baseline_runs_everywhere_and_other_instructions_are_an_error() -> None:
    assert "baseline" in _core.simd()
    error = refused(run_process("env", env={"BPE_PIPELINE_SIMD": "mmx"}), 1)
    assert "BPE_PIPELINE_SIMD=mmx: this machine runs" in error
    assert "baseline" in error


@pytest.mark.one_of(7)
@pytest.mark.parametrize("size", [30_000, pytest.param(3_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(1, 6))
def test_every_instruction_set_cuts_the_same_pre_tokens(seed: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each prints the same digest (tests/support/cut_alike.py), having compared every text with the plain automaton."""
    digests = set()
    for name in _core.simd():
        monkeypatch.setenv("BPE_PIPELINE_SIMD", name)
        used, digest = script(f"import cut_alike; cut_alike.main({seed}, {size})").split()
        assert used == name
        digests.add(digest)
    assert len(digests) == 1
