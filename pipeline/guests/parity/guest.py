"""What this guest brings."""

from typing import Any

from pipeline.run.guests import Guest


def _languages() -> Any:
    from pipeline.guests.parity.parity import Languages

    return Languages


GUEST = Guest(choosers={"languages": _languages})
