"""What this guest brings."""

from typing import Any

from pipeline.run.guests import Guest


def _made() -> Any:
    from pipeline.guests.adapt import made

    return made


def _commands() -> Any:
    from pipeline.guests.adapt.commands import COMMANDS

    return COMMANDS


def _extend() -> Any:
    from pipeline.guests.adapt.commands import extend

    return extend


def _prune() -> Any:
    from pipeline.guests.adapt.commands import prune

    return prune


GUEST = Guest(commands=_commands, functions={"extend": _extend, "prune": _prune}, directories={"made-from.json": _made})
