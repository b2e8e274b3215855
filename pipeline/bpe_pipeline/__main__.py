"""The command `bpe-pipeline`, also `python -m bpe_pipeline`."""

import contextlib
import gc
import io
import os
import signal
import sys
import threading

_INTERRUPTED = 130  # by Ctrl-C
_TERMINATED = 128 + signal.SIGTERM  # the exit code, as shells report the signal
_REPEATED_S = 0.01
_SWITCH_S = 0.0005  # between threads: one that waits for files gets its turn while another exports
_GARBAGE_AFTER = 200_000  # objects: imports make many that stay, and looking through them once takes 20 ms


def main() -> int:
    """Run the command line and return its exit code; any failure prints one line."""
    terminated = list[int]()
    try:
        gc.set_threshold(_GARBAGE_AFTER)
        sys.setswitchinterval(_SWITCH_S)
        sys.unraisablehook = _interrupt_again
        if threading.current_thread() is threading.main_thread():
            _handle_signals(terminated)
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # PyTorch may be missing
        _open_streams()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # where the locale has not all characters
        from bpe_pipeline import _core  # noqa: F401 - if it is missing, its error says how to build it
        from bpe_pipeline.cli import run

        code = run(sys.argv[1:])
    except ImportError as error:
        if "--debug" in sys.argv:
            raise
        _complain(str(error))
        code = 1
    except (KeyboardInterrupt, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise  # before Python 3.12, a class that is being made turns a Ctrl-C into this, with it as the cause
        _complain("interrupted; what is finished is kept: the same command resumes")
        code = _INTERRUPTED
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):  # while Python exits, it would print a traceback
            signal.signal(number, signal.SIG_IGN if _repeated else signal.SIG_DFL)
    gc.freeze()  # nothing is collected when Python exits, which would take as long as all imports
    interrupted = code == _INTERRUPTED
    code = _flush_stdout(_TERMINATED if terminated and interrupted else code)
    if interrupted:  # in code that Python executes from text it notes a Ctrl-C, and would end by that signal
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)
    return code


def _handle_signals(terminated: list[int]) -> None:
    """Let SIGTERM do what Ctrl-C does, once; `timeout` sends it twice. terminated: its number is appended."""

    def terminate(number: int, _frame: object) -> None:
        if not terminated:
            terminated.append(number)
            raise KeyboardInterrupt

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, no one can ask how a process ended
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)


_repeated: list[threading.Timer] = []  # of a Ctrl-C that may come when the command has ended by itself


def _interrupt_again(lost: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that came in a callback of Python, which would print it and go on."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _repeated.append(threading.Timer(_REPEATED_S, _interrupt))
        _repeated[-1].start()
    else:
        sys.__unraisablehook__(lost)


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)  # which ends what waits, too


def _open_streams() -> None:
    """Open the null device for closed standard streams, so that no other file gets their number.

    `sys.stdin` stays None if it is closed: a command that reads it reports that.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - open to the end


def _flush_stdout(code: int) -> int:
    """Write the rest of standard output; report a failure, except that the reader has left."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        if not isinstance(error, BrokenPipeError) and code == 0:
            reason = getattr(error, "strerror", None) or error
            _complain(f"standard output cannot be written: {reason}; write it somewhere else")
        with contextlib.suppress(OSError, ValueError):  # drop the rest, or Python complains at its exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or 1
    return code


def _complain(reason: str) -> None:
    from bpe_pipeline.base.printable import PROGRAM, write_error

    write_error(f"{PROGRAM}: error: {reason}")


if __name__ == "__main__":
    sys.exit(main())
