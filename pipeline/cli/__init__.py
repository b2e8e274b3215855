"""The command line: turns words into options, calls the command's story, prints what it gives.

click is the chosen library: typed, kept since 2014, two dependencies fewer and a third of the start-up time of those
built upon it. The flags of a run are made from the one table in `pipeline.run.options`.

    group.py      the group that all commands belong to, and what several of them take
    options.py    flags from the table of options, and options from flags and configuration file
    training.py   train, count, merge
    counts.py     combine, import, verify
    reports.py    report
    tokens.py     export, encode, decode, env, version
"""

import contextlib
import logging
import sys
import traceback
from collections.abc import Sequence

import click

from pipeline.base import log
from pipeline.base.errors import PipelineError
from pipeline.cli import counts, reports, tokens, training  # noqa: F401 - their commands join the group
from pipeline.cli.group import PROGRAM, commands
from pipeline.storage import RemoteError

__all__ = ["commands", "run"]


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code. Prints a one-line reason for every failure."""
    debug = "--debug" in arguments
    if debug:
        logging.getLogger(log.ROOT).setLevel(logging.DEBUG)
    try:
        result = commands.main([word for word in arguments if word != "--debug"], PROGRAM, standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:  # click turns the second into the first
        _complain(str(error.__cause__ or error) or "interrupted before any work was begun")
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        _complain(" ".join(error.format_message().split()))
        return 2
    except PipelineError as error:
        if debug:
            raise
        _complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left: nothing to say, and nobody to say it to
        return 1
    except OSError as error:
        if debug:
            raise
        if isinstance(error, RemoteError):
            _complain(f"{error.filename} cannot be used: {error.strerror}")
        else:
            _complain(_about_stdout(error) or _defect(error))
        return 1
    except Exception as error:
        if debug:
            raise
        _complain(_defect(error))
        return 1
    return result if isinstance(result, int) else 0


def _complain(reason: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # standard error is full or closed: there is nobody to tell
        click.echo(f"{PROGRAM}: error: {reason}", err=True)


def _defect(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} (a defect: please report it with the output of --debug)"


def _about_stdout(error: OSError) -> str | None:
    """The message for output that click could not write; None where the error came from elsewhere."""
    if any(frame.f_globals.get("__name__") == "click.utils" for frame, _ in traceback.walk_tb(error.__traceback__)):
        return f"standard output cannot be written: {error.strerror or error}; write it somewhere else"
    return None
