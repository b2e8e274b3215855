"""What this extension brings."""

from typing import Any

from bpe_pipeline.run.extensions import Extension


def _change() -> Any:
    from bpe_pipeline.extensions.adapt import change

    return change


def _commands() -> Any:
    from bpe_pipeline.extensions.adapt.commands import COMMANDS

    return COMMANDS


def _extend() -> Any:
    from bpe_pipeline.extensions.adapt.commands import extend

    return extend


def _prune() -> Any:
    from bpe_pipeline.extensions.adapt.commands import prune

    return prune


EXTENSION = Extension(
    commands=_commands, functions={"extend": _extend, "prune": _prune}, directories={"made-from.json": _change}
)
