"""The command as the tests run it: in a process of its own, from the installed package."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from pipeline import cli


def run(*arguments: object, cwd: Path | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "pipeline", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=stdin, check=False)


def run_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in this process: with the fixture `in_process` a fifth of the time."""
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        code = cli.run(list(map(str, arguments)))
    return subprocess.CompletedProcess(arguments, code, output.getvalue(), errors.getvalue())


def script(text: str, *arguments: object) -> str:
    """What a Python program printed that knows the installed package and the modules of the tests."""
    command = [sys.executable, "-P", "-c", text, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(result: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line with which a command was refused."""
    lines = [line for line in result.stderr.splitlines() if "error:" in line]
    assert result.returncode == code, result.stderr
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]
