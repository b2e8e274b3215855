"""What this extension brings."""

from typing import Any

from bpe_pipeline.run.extensions import Extension


def _commands() -> Any:
    from bpe_pipeline.extensions.sweep.commands import COMMANDS

    return COMMANDS


def _sweep() -> Any:
    from bpe_pipeline.extensions.sweep.commands import sweep

    return sweep


EXTENSION = Extension(commands=_commands, functions={"sweep": _sweep})
