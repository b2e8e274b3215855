"""What this guest brings."""

from typing import Any

from pipeline.run.guests import Guest


def _rows_report() -> Any:
    from pipeline.guests.chat.page import ChatReport

    return ChatReport


GUEST = Guest(rows_report=_rows_report)
