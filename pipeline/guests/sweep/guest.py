"""What this guest brings."""

from typing import Any

from pipeline.run.guests import Guest


def _commands() -> Any:
    from pipeline.guests.sweep.commands import COMMANDS

    return COMMANDS


def _sweep() -> Any:
    from pipeline.guests.sweep.commands import sweep

    return sweep


GUEST = Guest(commands=_commands, functions={"sweep": _sweep})
