"""The memory budget of a worker that reads and counts: what reading holds, counting cannot use.

Readers announce a decompressor's window or a long line before they hold it: counting then gets less, and what does not
fit is an error. The budget never decides which input is skipped.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from bpe_pipeline.base.errors import TrainingError
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.base.units import format_bytes, format_limit

LEAST_COUNTING_BYTES = 3 << 20  # what counting needs next to reading
SMALL_BYTES = 1 << 20  # up to this size nothing need be announced


@dataclass
class ReadBudget:
    """What reading holds of a worker's memory, by name ("window", "line", ...).

    budget_bytes: for reading and counting together; None: no limit. on_change: is called with what is left for
    counting. grant: of the worker, for its work; copies: of how many such budgets that is. They only serve error
    messages.
    """

    budget_bytes: int | None
    on_change: Callable[[int], None]
    grant: Grant | None = None
    copies: float = 1
    _held: dict[str, int] = field(default_factory=dict, init=False)

    @property
    def left_bytes(self) -> int | None:
        """What is not held; None: no limit."""
        return None if self.budget_bytes is None else self.budget_bytes - sum(self._held.values())

    def hold(self, name: str, size: int) -> bool:
        """Hold `size` bytes under this name from now on, 0 to release them; return False, unchanged, if too large."""
        if self.budget_bytes is None or self._held.get(name, 0) == size:
            return True
        held = sum((self._held | {name: size}).values())
        if size and held + LEAST_COUNTING_BYTES > self.budget_bytes:
            return False
        self._held[name] = size
        self.on_change(self.budget_bytes - held)
        return True

    def require(self, name: str, size: int, what: str) -> None:
        """Hold `size` bytes or raise the error of `too_large`."""
        if not self.hold(name, size):
            raise self.too_large(name, size, what)

    def too_large(self, name: str, size: int, what: str) -> TrainingError:
        """Return the error for something of this size that does not fit; what: its name, with file and position."""
        needed = sum((self._held | {name: size}).values()) + LEAST_COUNTING_BYTES
        budget = self.budget_bytes or 0
        limit, fewer = "a larger --memory-limit", ""
        if (grant := self.grant) is not None:
            enough = grant.enough(grant.bytes + self.copies * (needed - budget), grant.most)
            limit = f"--memory-limit {format_limit(enough)}"
            fewer = ", or fewer --workers" if grant.on_one >= 2 else ""
        return TrainingError(
            f"{what} would take {format_bytes(needed)} to read, and a worker has {format_bytes(budget)}; "
            f"give {limit}{fewer}"
        )


UNLIMITED = ReadBudget(None, lambda _: None)
