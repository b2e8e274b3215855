"""Run a command on a terminal, and read its screen at every moment, as text with colours."""

import contextlib
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_STEPS = re.compile(
    r"\x1b\[(?:\?\d+[hl]|(?P<up>\d*)A|(?P<clear>2K))|(?P<line>\n)|\r|(?P<text>(?:\x1b\[[\d;]*m|[^\x1b\r\n])+)"
)


def output_on_a_terminal(
    words: Sequence[str], cwd: Path, program: Sequence[str] = ("-m", "bpe_pipeline"), code: int = 0, **environment: str
) -> bytes:
    """Return everything that a command, or another program in Python, writes to a terminal."""
    terminal, other_end = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-P", *program, *words]
    usual = plain | {"TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, cwd=cwd, stdout=other_end, stderr=other_end, env=usual | environment) as process:
        os.close(other_end)
        seen = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(terminal, 65536):
                seen += data
    os.close(terminal)
    assert process.returncode == code, seen
    return seen


def screens(output: bytes) -> list[str]:
    """Return the screen before each of its bars is drawn again, and at the end; colours stay as they were written.

    >>> screens(b"50%\\r\\nbar\\r\\x1b[2K\\x1b[1A\\x1b[2K99%")
    ['50%\\nbar', '99%']
    """
    lines, row, seen = [""], 0, []
    for step in _STEPS.finditer(output.decode()):
        if step["clear"]:
            if lines[-1] and row == len(lines) - 1:
                seen.append("\n".join(lines))
            lines[row] = ""
        elif step["up"] is not None:
            row = max(row - int(step["up"] or 1), 0)
        elif step["line"]:
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif step["text"]:
            lines[row] += step["text"]
    return [*seen, "\n".join(lines).rstrip()]
