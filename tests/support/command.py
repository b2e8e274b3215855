"""The command as the tests run it: in this process, which is made like a new one, or in a process of its own."""

import importlib
import io
import logging
import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import tasks_here

from bpe_pipeline import cli
from bpe_pipeline.base import log
from bpe_pipeline.base.errors import PipelineError

NOTHING: Mapping[str, str] = MappingProxyType({})
_REMEMBERED = {  # what a process learns once of its environment, and of files that a test may replace
    "bpe_pipeline.storage.scratch": "sweep_once.cache_clear",
    "bpe_pipeline.storage.remote": "_filesystem.cache_clear",
    "bpe_pipeline.shards.encode_worker": "_loaded.clear",
}


def run_process(
    *arguments: object, cwd: Path | None = None, stdin: str | bytes = "", env: Mapping[str, str] = NOTHING
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, from the installed package, with `env` added to the environment."""
    command = [sys.executable, "-P", "-m", "bpe_pipeline", *map(str, arguments)]
    environment = {**os.environ, **env}
    done = subprocess.run(command, capture_output=True, cwd=cwd, input=_bytes(stdin), env=environment, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command: in this process, in a fifth of the time, or in another one if the test is marked `processes`.

    A limit of memory bounds the process, and this one is large. Options are those of `run_here`.
    """
    here = tasks_here.active and "--memory-limit" not in arguments
    return (run_here if here else run_process)(*arguments, **options)


def run_here(
    *arguments: object, cwd: Path | None = None, stdin: str | bytes = "", env: Mapping[str, str] = NOTHING
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process."""
    words = list(map(str, arguments))
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True) for _ in "ab")
    printed = output.buffer, errors.buffer
    with as_new_process(cwd, stdin, env), redirect_stdout(output), redirect_stderr(errors):
        try:
            code = cli.run(words)
        except SystemExit as end:  # of click, when a shell asks for completions
            code = int(end.code or 0)
        except ImportError as error:  # the rest as `bpe_pipeline.__main__` does
            code = 1
            traceback.print_exc() if "--debug" in words else errors.write(f"bpe-pipeline: error: {error}\n")
        except Exception:
            code = 1
            traceback.print_exc()
    return subprocess.CompletedProcess(words, code, *(stream.getvalue().decode() for stream in printed))


@contextmanager
def as_new_process(cwd: Path | None, stdin: str | bytes, env: Mapping[str, str]) -> Iterator[None]:
    """Forget what this process has learned; in the end, put back what the block changed."""
    for module, forget in _REMEMBERED.items():
        attrgetter(forget)(importlib.import_module(module))()
    logger = logging.getLogger(log.ROOT)
    logs = logger.level, logger.propagate, logger.handlers[:]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    standard_input = io.TextIOWrapper(io.BytesIO(_bytes(stdin)), "utf-8")
    try:
        with (
            chdir(cwd or "."),
            patch.dict(os.environ, env),
            patch("sys.stdin", standard_input),
            warnings.catch_warnings(),
        ):
            os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
            yield
    finally:
        logger.level, logger.propagate, logger.handlers[:] = logs
        for number, handler in handlers.items():
            signal.signal(number, handler)


def measured(*arguments: object, cwd: Path, limit_mib: int | None = None, fails: bool = False) -> Any:
    """Measure the command in a process of its own, which keeps to its limit of memory, and may fail with one error."""
    from benchmarks.process import measure

    words = [*map(str, arguments), *([] if limit_mib is None else [f"--memory-limit={limit_mib}MiB"])]
    command = [sys.executable, "-P", "-m", "bpe_pipeline", *words]
    found = measure(command, timeout_s=300, directory=cwd, environment=None)
    assert limit_mib is None or found.peak_memory_bytes <= limit_mib << 20
    assert found.status == "ok" or (fails and found.stderr.count("error") == 1), found.stderr
    assert "passed the limit" not in found.stderr
    return found


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def script(text: str, *arguments: object) -> str:
    """Return what a Python program printed that knows the installed package and the modules of the tests."""
    command = [sys.executable, "-P", "-c", text, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(result: subprocess.CompletedProcess[str], code: int) -> str:
    """Return the one line with which a command was refused."""
    lines = [line for line in result.stderr.splitlines() if "error:" in line]
    assert result.returncode == code, result.stderr
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


def succeeded(result: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Return the result of a command that must have succeeded."""
    assert result.returncode == 0, result.stderr
    return result


def files_in(directory: Path, but: Collection[str] = (".lock", "log.txt")) -> dict[str, bytes]:
    """Return the files of a directory by their paths in it, without those of some names."""
    found = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if path.name not in but}


def model(run: Path) -> bytes:
    """Return the tokenizer that a run has written."""
    return (run / "tokenizer" / "tokenizer.json").read_bytes()


def one_line(error: BaseException, name: str) -> None:
    """Require an error of ours, in one line that names a file."""
    assert isinstance(error, PipelineError), repr(error)
    assert name in str(error)
    assert "\n" not in str(error)
