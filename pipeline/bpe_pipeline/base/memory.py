"""Memory that processes were granted, and the one refusal where it is too small. It imports little, as workers do."""

from dataclasses import dataclass

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.units import format_bytes, format_limit

_SLACK_BYTES = 8 << 20  # by which the coordinator may differ from one run to the next


@dataclass(frozen=True)
class Grant:
    """A share of a machine's memory limit: `bytes` for the work of each of `on_one` processes.

    taken_bytes: of the limit, before any work. worker_bytes: of each process, before its own. later_bytes: the least
    that a later stage of the command needs for its work. given: whether the user chose the limit. count: processes on
    all machines. most: how many would share a larger limit. of_cluster: nodes join and leave, so only the executor
    knows how many tasks run at the same time.
    """

    bytes: int
    limit_bytes: int
    taken_bytes: int
    worker_bytes: int
    later_bytes: int = 0
    given: bool = True
    count: int = 1
    on_one: int = 1
    most: int = 1
    of_cluster: bool = False

    @property
    def at_once(self) -> int | None:
        """How many tasks run at the same time; None: the executor knows."""
        return None if self.of_cluster else self.count

    @property
    def need_bytes(self) -> int:
        """What one process takes, its work included."""
        return self.worker_bytes + self.bytes

    @property
    def other_bytes(self) -> int:
        """What is not for the work of the only process."""
        return self.taken_bytes + self.worker_bytes

    def fitting(self, needed_bytes: int) -> int:
        """Return how many processes that need this fit into the limit; one does, as `require` holds."""
        return max(1, (self.limit_bytes - self.taken_bytes) // (self.worker_bytes + needed_bytes))

    def enough(self, needed_bytes: float, workers: int = 1) -> int:
        """Return a limit with which each of that many workers has `needed_bytes`, and later stages what they need."""
        each, later = self.worker_bytes + int(needed_bytes), self.worker_bytes + self.later_bytes
        return self.taken_bytes + max(workers * each, later) + _SLACK_BYTES

    def require(self, needed_bytes: int, what: str, remedy: str = "") -> None:
        """Raise the refusal of the limit if work takes more than is granted."""
        if needed_bytes > self.bytes:
            raise self.refusal(needed_bytes, what, remedy)

    def refusal(self, needed_bytes: int, what: str, remedy: str = "") -> UsageError:
        """Return the error for work that takes more than is granted. what: the work. remedy: instead of more."""
        limit = "--memory-limit" if self.given else "the memory that is free,"
        free = "" if self.given else "free some, or "
        return UsageError(
            f"{limit} {format_bytes(max(self.limit_bytes, 0))} is too small: {what} takes at least "
            f"{format_bytes(self.other_bytes + needed_bytes)} for all processes together; {free}give --memory-limit "
            f"{format_limit(self.enough(needed_bytes))}{remedy}"
        )
