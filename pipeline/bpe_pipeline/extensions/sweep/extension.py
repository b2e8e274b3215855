"""What this extension brings."""

from typing import Any

from bpe_pipeline.run.extensions import Extension


def _commands() -> Any:
    from bpe_pipeline.extensions.sweep.commands import COMMANDS

    return COMMANDS


def _sweep() -> Any:
    from bpe_pipeline.extensions.sweep.commands import sweep

    return sweep


def _section(_executor: Any, run: Any, _trained: Any) -> Any:
    home = run.directory.location.parent
    if home.name != "mixtures" or not (home.parent / "sweep.json").exists():
        return None
    from bpe_pipeline.extensions.sweep.result import section

    return section(home.parent)


EXTENSION = Extension(commands=_commands, functions={"sweep": _sweep}, report_section=_section)
