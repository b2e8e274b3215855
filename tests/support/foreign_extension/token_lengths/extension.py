"""What this package brings to bpe-pipeline. All of it is imported when it is used, so that no command starts later."""

from typing import Any

from bpe_pipeline.run.extensions import Extension


def _commands() -> Any:
    from token_lengths.commands import lengths, merge_short

    return lengths, merge_short


def _lengths() -> Any:
    from token_lengths.commands import lengths

    return lengths


def _merge_short() -> Any:
    from token_lengths.commands import merge_short

    return merge_short


def _directory() -> Any:
    from token_lengths import directory

    return directory


def _short_tokens() -> Any:
    from token_lengths.short_tokens import ShortTokens

    return ShortTokens


def _section(executor: Any, run: Any, trained: Any) -> Any:
    if run.manifest.source is None or run.manifest.source.kind != "lengths":
        return None
    from token_lengths.short_tokens import section

    return section(executor, run, trained)


EXTENSION = Extension(
    commands=_commands,
    functions={"lengths": _lengths, "merge_short": _merge_short},
    directories={"lengths.json": _directory},
    choosers={"lengths": _short_tokens},
    report_section=_section,
)
