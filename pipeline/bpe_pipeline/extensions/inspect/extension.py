"""What this extension brings."""

from typing import Any

from bpe_pipeline.run.extensions import Extension


def _commands() -> Any:
    from bpe_pipeline.extensions.inspect import commands

    return commands


EXTENSION = Extension(
    commands=lambda: _commands().COMMANDS,
    functions={
        "explain": lambda: _commands().explain,
        "diff": lambda: _commands().diff,
        "doctor": lambda: _commands().doctor,
    },
)
