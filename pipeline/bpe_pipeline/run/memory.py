"""The broker of memory: work reserves it, naming the least that it needs and the most that helps.

The two numbers are next to the code that spends them. What processes take before any work is measured for the
coordinator, and declared here for the others: for the interpreter, this package and Arrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bpe_pipeline.base import machine
from bpe_pipeline.base.memory import Grant
from bpe_pipeline.executors import Node

_SHARE = 0.8  # of what is free, if no limit is given
_COORDINATOR_BYTES = 24 << 20  # the command, at least
_COORDINATOR_GROWTH_BYTES = 6 << 20  # more while a stage runs
_FORK_SERVER_BYTES = 14 << 20
_ARROW_BYTES = 36 << 20  # of the system's, shared by all workers that have it
_WORKER_BYTES = 18 << 20  # a worker's own
_CLUSTER_WORKER_BYTES = 120 << 20  # a worker's with Ray in it
WRITE_BYTES = 12 << 20  # for writing or reading a partition of a counter
LEAST_WORK_BYTES = 24 << 20  # of a worker, that writing included


@dataclass(frozen=True)
class Broker:
    """The memory limit of a command, on each machine: the given one, or 80 % of what was free when it started.

    later_bytes: the least that the work of a later stage needs; the refusal of an earlier one counts it in.
    """

    limit_bytes: int
    given: bool = True
    later_bytes: int = 0

    @classmethod
    def of(cls, memory_limit: int | None, later_bytes: int = 0) -> "Broker":
        """Return the broker of this limit, or of what is free now besides our own processes."""
        free = None if memory_limit else int(machine.available_memory() * _SHARE) + machine.process_tree_memory()
        return cls(memory_limit or free or 0, memory_limit is not None, later_bytes)

    def everything(self, nodes: Sequence[Node] = ()) -> Grant:
        """Return all that is left for one process, below 0 if even that is too much; with nodes, on the smallest.

        It is for work that learns what it needs when it has started, and then calls `require`.
        """
        if nodes:
            lent = min(node.memory_bytes for node in nodes)
            limit = min(self.limit_bytes, lent) if self.given else lent
            taken, worker = _ARROW_BYTES, _CLUSTER_WORKER_BYTES
        else:
            own_bytes = max(machine.own_memory(), _COORDINATOR_BYTES) + _COORDINATOR_GROWTH_BYTES
            limit = self.limit_bytes
            taken, worker = own_bytes + _FORK_SERVER_BYTES + _ARROW_BYTES, _WORKER_BYTES
        left = limit - taken - worker
        return Grant(left, limit, taken, worker, self.later_bytes, self.given, of_cluster=bool(nodes))

    def everything_free(self, nodes: Sequence[Node] = ()) -> Grant:
        """Return `everything`, or less if other programs have taken memory of this machine since the start."""
        grant = self.everything(nodes)
        if nodes or (free := machine.available_memory()) >= grant.bytes:
            return grant
        return replace(grant, bytes=free, limit_bytes=grant.other_bytes + free, given=False)

    def reserve(
        self,
        minimum: int = LEAST_WORK_BYTES,
        wanted: int | None = None,
        what: str = "any work",
        *,
        asked: int = 1,
        nodes: Sequence[Node] = (),
        remedy: str = "",
    ) -> Grant:
        """Return memory for as many workers, of those asked for, as have `minimum` bytes each for their work.

        Each gets an equal share, at most `wanted`. `UsageError` if not even one worker has the minimum: it names what
        takes it, and a limit that suffices for it and for later stages.
        """
        whole = self.everything(nodes)
        whole.require(minimum, what, remedy)
        most = min(asked, max(node.cores for node in nodes)) if nodes else asked
        on_one = min(most, whole.fitting(minimum))
        each = (whole.limit_bytes - whole.taken_bytes) // on_one - whole.worker_bytes
        return replace(
            whole,
            bytes=each if wanted is None else min(each, wanted),
            count=min(asked, sum(min(node.cores, on_one) for node in nodes)) if nodes else on_one,
            on_one=on_one,
            most=on_one if nodes else asked,
        )
