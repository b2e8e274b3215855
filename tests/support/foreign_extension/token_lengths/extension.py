"""What this package brings to bpe-pipeline. All of it is imported when it is used, so that no command starts later."""

from typing import Any

from bpe_pipeline.run.extensions import Extension


def _commands() -> Any:
    return (_lengths(),)


def _lengths() -> Any:
    from token_lengths.commands import lengths

    return lengths


def _directory() -> Any:
    from token_lengths import directory

    return directory


def _section(executor: Any, run: Any, trained: Any) -> Any:
    from token_lengths.report import section

    return section(executor, run, trained)


EXTENSION = Extension(
    commands=_commands,
    functions={"lengths": _lengths},
    directories={"lengths.json": _directory},
    report_section=_section,
)
