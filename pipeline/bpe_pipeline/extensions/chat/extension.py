"""What this extension brings."""

from typing import Any

from bpe_pipeline.run.extensions import Extension


def _rows() -> Any:
    from bpe_pipeline.extensions.chat import page

    return page


def _commands() -> Any:
    from bpe_pipeline.extensions.chat.commands import COMMANDS

    return COMMANDS


def _align_chat() -> Any:
    from bpe_pipeline.extensions.chat.align import align_chat

    return align_chat


def _encode_chat() -> Any:
    from bpe_pipeline.extensions.chat.encode import encode_chat

    return encode_chat


EXTENSION = Extension(
    commands=_commands,
    functions={"compat.align_chat": _align_chat, "encode_chat": _encode_chat},
    directories={"chat": _rows},
)
