"""How the command ends after a failure: one line, or with --debug the traceback that a bug report needs."""

import subprocess
import sys
from unittest.mock import Mock

import click
import pytest
from command import run

from bpe_pipeline import cli
from bpe_pipeline.base.errors import InputError
from bpe_pipeline.storage import RemoteError

FAILURES = [
    (InputError("a.txt is gone: bring it back"), 1, "a.txt is gone: bring it back"),
    (KeyError("x"), 1, "KeyError: 'x' (a defect: please report it with the output of --debug)"),
    (OSError(9, "Bad file descriptor"), 1, "OSError: [Errno 9] Bad file descriptor (a defect: "),
    (OSError(5, "Input/output error"), 1, "the system refuses: Input/output error; check the disk, and run the same"),
    (click.UsageError("what\n  is this"), 2, "what is this"),
    (RemoteError(5, "no answer", "s3://bucket/run"), 1, "s3://bucket/run cannot be read: no answer"),
    (KeyboardInterrupt(), 130, "interrupted before any work started"),
]


@pytest.mark.parametrize(("error", "code", "message"), FAILURES, ids=lambda value: type(value).__name__)
def test_failure_is_one_line_unless_debugged(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli.commands, "main", Mock(side_effect=error))
    assert cli.run(["env"]) == code
    line, rest = capsys.readouterr().err.split("\n")
    assert line.startswith(f"bpe-pipeline: error: {message}")
    assert rest == ""
    if isinstance(error, InputError | KeyError | OSError):
        with pytest.raises(type(error)):
            cli.run(["--debug", "env"])


def test_debug_prints_the_traceback() -> None:
    assert ["Traceback" in run("merge", "/none", *more).stderr for more in ([], ["--debug"])] == [False, True]


def test_core_import_failure_is_one_line() -> None:
    program = (
        "import sys; sys.modules['bpe_pipeline._core'] = None; from bpe_pipeline.__main__ import main; sys.exit(main())"
    )
    for words, traceback in (["env"], False), (["env", "--debug"], True):
        command = [sys.executable, "-P", "-c", program, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert ("Traceback" in done.stderr) == traceback
        assert traceback or done.stderr.startswith("bpe-pipeline: error: ")
