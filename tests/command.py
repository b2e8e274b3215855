"""The command as the tests run it: in a process of its own, from the installed package."""

import subprocess
import sys
from pathlib import Path


def run(*arguments: object, cwd: Path | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "pipeline", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=stdin, check=False)


def refused(result: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line with which a command was refused."""
    lines = [line for line in result.stderr.splitlines() if "error:" in line]
    assert result.returncode == code, result.stderr
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]
