"""Report progress as small events, passed to one listener.

The stages call the listener and know nothing of terminals; `pipeline.report.progress` has listeners that draw bars,
print lines or write JSON. A listener must be quick and must not raise, except `KeyboardInterrupt`.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class StageStarted:
    """A stage begins: `total` steps of `unit` are ahead, of which `done` were done by an earlier run."""

    stage: str
    total: int
    unit: str
    done: int = 0


@dataclass(frozen=True)
class Advanced:
    """A stage came further by `amount` steps (negative where a failed attempt is taken back)."""

    stage: str
    amount: int


@dataclass(frozen=True)
class StageEnded:
    """A stage is complete, `elapsed_s` seconds after it began."""

    stage: str
    elapsed_s: float


@dataclass(frozen=True)
class Notice:
    """Something a person should know; `level` is "info" or "warning"."""

    level: str
    text: str


Event = StageStarted | Advanced | StageEnded | Notice
Listener = Callable[[Event], None]


def warn_of(event: Event) -> None:
    """A listener that turns warnings into Python's."""
    if isinstance(event, Notice) and event.level == "warning":
        warnings.warn(event.text, stacklevel=2)
