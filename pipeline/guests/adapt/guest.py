"""What this guest brings."""

from typing import Any

from pipeline.run.guests import Guest


def _made() -> Any:
    from pipeline.guests.adapt import made

    return made


GUEST = Guest(directories={"made-from.json": _made})
