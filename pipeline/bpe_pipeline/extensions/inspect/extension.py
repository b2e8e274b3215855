"""What this extension brings."""

from typing import Any

from bpe_pipeline.run.extensions import Extension


def _commands() -> Any:
    from bpe_pipeline.extensions.inspect.commands import COMMANDS

    return COMMANDS


def _explain() -> Any:
    from bpe_pipeline.extensions.inspect.commands import explain

    return explain


def _diff() -> Any:
    from bpe_pipeline.extensions.inspect.commands import diff

    return diff


def _doctor() -> Any:
    from bpe_pipeline.extensions.inspect.commands import doctor

    return doctor


EXTENSION = Extension(commands=_commands, functions={"explain": _explain, "diff": _diff, "doctor": _doctor})
