"""What this extension brings."""

from typing import Any

from bpe_pipeline.extensions.parity import KIND
from bpe_pipeline.run.extensions import Extension


def _languages() -> Any:
    from bpe_pipeline.extensions.parity.parity import Languages

    return Languages


def _section(_: Any, run: Any, trained: Any) -> Any:
    if run.manifest.source is None or run.manifest.source.kind != KIND:
        return None
    from bpe_pipeline.extensions.parity.measured import section

    return section(run, trained)


def _commands() -> Any:
    from bpe_pipeline.extensions.parity.commands import COMMANDS

    return COMMANDS


def _parity() -> Any:
    from bpe_pipeline.extensions.parity.commands import parity

    return parity


EXTENSION = Extension(
    commands=_commands, functions={"parity": _parity}, choosers={KIND: _languages}, report_section=_section
)
