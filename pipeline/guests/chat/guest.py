"""What this guest brings."""

from typing import Any

from pipeline.guests.chat.lengths import ROWS
from pipeline.run.guests import Guest


def _rows() -> Any:
    from pipeline.guests.chat import page

    return page


GUEST = Guest(directories={ROWS: _rows})
