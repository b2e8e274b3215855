"""The command line: turns declared commands into commands of click, words into options, and prints results.

click is the chosen library: typed, kept since 2014, two dependencies fewer and a third of the start-up time of those
built on it.
"""

import logging
import sys
import traceback
from collections.abc import Sequence

import click

from bpe_pipeline import __version__
from bpe_pipeline.base import log, system
from bpe_pipeline.base.errors import PipelineError
from bpe_pipeline.base.printable import PROGRAM, without_secrets, write_error
from bpe_pipeline.cli.command import DEBUGGING, click_command
from bpe_pipeline.cli.help import HELP, Command, Group
from bpe_pipeline.commands.declared import COMMANDS
from bpe_pipeline.run import extensions

__all__ = ["all_commands", "run"]

commands = click.version_option(
    __version__, prog_name=PROGRAM, message="%(prog)s %(version)s", help="show the version, and exit"
)(
    Group(
        COMMANDS,
        extensions.commands,
        click_command,
        name=PROGRAM,
        params=[*DEBUGGING, HELP],
        context_settings={"max_content_width": 110},
        help="""Train byte-level BPE tokenizers on corpora larger than memory: exact, parallel, resumable.

        \b
        bpe-pipeline train corpus/*.txt --vocab-size 32k --output runs/a
        bpe-pipeline encode corpus/*.txt --tokenizer runs/a --output shards
        """,
        epilog="""Let the Tab key complete commands, options and values; for bash, and likewise for zsh and fish:

        \b
        eval "$(_BPE_PIPELINE_COMPLETE=bash_source bpe-pipeline)"
        """,
    )
)


def all_commands() -> dict[str, Command]:
    """Return all commands by name, those of extensions, too."""
    return {name: click_command(declared) for name, declared in commands.declared().items()}


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code. Print a one-line reason for every failure."""
    debug = "--debug" in arguments
    if debug:
        logging.getLogger(log.ROOT).setLevel(logging.DEBUG)
    try:
        result = commands.main(list(arguments), PROGRAM, standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:  # click turns the second into the first
        return _fail(str(error.__cause__ or error) or "interrupted before any work started", 130)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        return _fail(without_secrets(" ".join(error.format_message().split())), 2)
    except BrokenPipeError as error:
        sys.stderr.close()  # the reader of our output has left: say nothing
        return getattr(error, "exit_code", 1)
    except Exception as error:
        if debug:
            raise
        reason = str(error) if isinstance(error, PipelineError) else _describe(error)
        return _fail(reason, getattr(error, "exit_code", 1))
    return result if isinstance(result, int) else 0


def _fail(reason: str, code: int) -> int:
    write_error(f"{PROGRAM}: error: {reason}")
    for line in map(str, extensions.unusable.values()):  # perhaps it brings what was not found
        if line != reason:
            write_error(f"{PROGRAM}: warning: {line}")
    return code


def _describe(error: Exception) -> str:
    """Say what an unexpected error is about: click's writing to standard output, the system, or a defect."""
    frames = traceback.walk_tb(error.__traceback__)
    if isinstance(error, OSError) and any(frame.f_globals.get("__name__") == "click.utils" for frame, _ in frames):
        return f"standard output cannot be written: {error.strerror or error}; write it somewhere else"
    if isinstance(error, MemoryError):
        return system.memory_is_short()
    if isinstance(error, OSError) and (refusal := system.refusal_of(error)):
        return refusal
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if system.maps_limited():
        return f"{text}; perhaps {system.memory_is_short()}"
    return f"{text} (a defect: please report it with the output of --debug)"
