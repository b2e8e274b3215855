"""The command `bpe-pipeline`, also `python -m pipeline`."""

import os
import signal
import sys
import threading


def main() -> int:
    """Run the command line and return its exit code; whatever happens, nothing but one line tells of it."""
    try:
        _open_streams()
        code = _run()
    except KeyboardInterrupt:
        _complain("interrupted; what is finished is kept: the same command goes on from there")
        code = 130
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own end would answer Ctrl-C with a traceback
    return _flush(code)


def _run() -> int:
    try:
        from pipeline import _core  # noqa: F401 - says how to build it, where it is not
        from pipeline.cli import run
    except ImportError as error:
        if "--debug" in sys.argv:
            raise
        _complain(str(error))
        return 1
    return run(sys.argv[1:])


def _open_streams() -> None:
    """Put the null device where standard streams are closed, so that no file of ours takes their number.

    `sys.stdin` stays None where it is closed: who reads it says so.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - open to the end


def _flush(code: int) -> int:
    """Write what is left of standard output; a failure is told, except that nobody reads any more."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        if not isinstance(error, BrokenPipeError) and code == 0:
            reason = getattr(error, "strerror", None) or error
            _complain(f"standard output cannot be written: {reason}; write it somewhere else")
        _give_up_stdout()
        return code or 1
    return code


def _give_up_stdout() -> None:
    """Let what Python still holds for standard output go nowhere, so that its own end does not complain."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


def _complain(reason: str) -> None:
    try:
        sys.stderr.write(f"bpe-pipeline: error: {reason}\n")
    except (OSError, ValueError):
        return  # standard error is full or closed: there is nobody to tell


if __name__ == "__main__":
    sys.exit(main())
