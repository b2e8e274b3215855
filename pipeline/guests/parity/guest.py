"""What this guest brings."""

from typing import Any

from pipeline.run.guests import Guest


def _chooser() -> Any:
    from pipeline.guests.parity.parity import Chooser

    return Chooser


GUEST = Guest(choosers={"languages": _chooser})
