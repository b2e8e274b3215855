"""What this guest brings."""

from typing import Any

from pipeline.guests.chat.lengths import ROWS
from pipeline.run.guests import Guest


def _rows() -> Any:
    from pipeline.guests.chat import page

    return page


def _commands() -> Any:
    from pipeline.guests.chat.commands import COMMANDS

    return COMMANDS


def _align_chat() -> Any:
    from pipeline.guests.chat.align import align_chat

    return align_chat


def _encode_chat() -> Any:
    from pipeline.guests.chat.encode import encode_chat

    return encode_chat


GUEST = Guest(
    commands=_commands, functions={"align_chat": _align_chat, "encode_chat": _encode_chat}, directories={ROWS: _rows}
)
