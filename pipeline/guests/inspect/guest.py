"""What this guest brings."""

from typing import Any

from pipeline.run.guests import Guest


def _commands() -> Any:
    from pipeline.guests.inspect.commands import COMMANDS

    return COMMANDS


def _explain() -> Any:
    from pipeline.guests.inspect.commands import explain

    return explain


def _diff() -> Any:
    from pipeline.guests.inspect.commands import diff

    return diff


def _doctor() -> Any:
    from pipeline.guests.inspect.commands import doctor

    return doctor


GUEST = Guest(commands=_commands, functions={"explain": _explain, "diff": _diff, "doctor": _doctor})
