"""The fuzzer itself runs: every target prepares itself and tries some inputs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_target_of_the_fuzzer_runs() -> None:
    command = [sys.executable, "-P", ROOT / "tests" / "fuzz", "--inputs", "60", "--seconds", "300"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count(" 60 inputs") == 13
