"""Progress as small events, passed to one listener.

Stages call the listener and know nothing of terminals; `bpe_pipeline.reports.progress` has listeners that draw bars,
print lines or write JSON. A listener must be quick and must not raise, except `KeyboardInterrupt`.
"""

import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from bpe_pipeline.base.printable import printable


@dataclass(frozen=True)
class StageStarted:
    """A stage starts: `total` steps of `unit`, of which an earlier run has done `done`."""

    stage: str
    total: int
    unit: str
    done: int = 0


@dataclass(frozen=True)
class Advanced:
    """A stage advanced by `amount` steps (negative when a failed attempt is subtracted)."""

    stage: str
    amount: int


@dataclass(frozen=True)
class StageEnded:
    """A stage is complete, `elapsed_s` seconds after it started."""

    stage: str
    elapsed_s: float


@dataclass(frozen=True)
class Notice:
    """A message for the user; `level` is "info", "warning", or "summary": at the end, for Python's `progress` alone."""

    level: str
    text: str


Event = StageStarted | Advanced | StageEnded | Notice
Listener = Callable[[Event], None]


def warn_of(event: Event) -> None:
    """Issue a Python warning for each notice of level "warning"; a listener."""
    if isinstance(event, Notice) and event.level == "warning":
        warnings.warn(printable(event.text), stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the stack level, as `warnings.warn` in the function before counts, of the line that called the package."""
    levels = enumerate(traceback.walk_stack(sys._getframe(1)), 1)
    return 1 + max(
        level for level, (frame, _) in levels if frame.f_globals.get("__name__", "").startswith("bpe_pipeline.")
    )
