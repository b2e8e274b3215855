"""What this guest brings."""

from typing import Any

from pipeline.guests.parity import KIND
from pipeline.run.guests import Guest


def _languages() -> Any:
    from pipeline.guests.parity.parity import Languages

    return Languages


def _section(executor: Any, run: Any, trained: Any) -> Any:
    if run.manifest.source is None or run.manifest.source.kind != KIND:
        return None
    from pipeline.guests.parity.measured import section

    return section(executor, run, trained)


def _commands() -> Any:
    from pipeline.guests.parity.commands import COMMANDS

    return COMMANDS


def _train_parity() -> Any:
    from pipeline.guests.parity.commands import parity

    return parity


GUEST = Guest(
    commands=_commands, functions={"train_parity": _train_parity}, choosers={KIND: _languages}, report_section=_section
)
