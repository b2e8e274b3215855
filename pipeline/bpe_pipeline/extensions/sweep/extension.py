"""What this extension brings."""

from typing import Any

from bpe_pipeline.run.extensions import Extension


def _commands() -> Any:
    from bpe_pipeline.extensions.sweep import commands

    return commands


def _section(_executor: Any, run: Any, _trained: Any) -> Any:
    home = run.directory.location.parent
    if home.name != "mixtures" or not (home.parent / "sweep.json").exists():
        return None
    from bpe_pipeline.extensions.sweep.result import section

    return section(home.parent)


EXTENSION = Extension(
    commands=lambda: _commands().COMMANDS, functions={"sweep": lambda: _commands().sweep}, report_section=_section
)
