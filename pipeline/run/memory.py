"""How the memory limit is shared: what the processes take before any work, and the room that is left for each stage.

The limit holds for all processes together. The coordinator is measured; what a process takes for the interpreter,
this package and Arrow is declared here; tests measure whole runs against their limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.base import machine
from pipeline.base.errors import UsageError
from pipeline.base.units import format_bytes
from pipeline.executors import Need, Node
from pipeline.run.options import Options
from pipeline.run.workers import worker_count

_SHARE = 0.8  # of what is free, where no limit is given
COORDINATOR_BYTES = 24 << 20  # the command, at the least
COORDINATOR_GROWTH_BYTES = 6 << 20  # what it takes more while a stage runs
FORK_SERVER_BYTES = 14 << 20
ARROW_BYTES = 36 << 20  # of the system's, which all workers that have it share
WORKER_BYTES = 18 << 20  # a worker's own
LEAST_ROOM_BYTES = 24 << 20  # for the work of a worker
CLUSTER_WORKER_BYTES = 120 << 20  # a worker's with Ray in it
WRITE_BYTES = 12 << 20  # that writing or reading a partition of a counter takes
_MOST_THREADS = 16  # of a stage on a node: more gain little and take cores from others
_MIN_CHUNK_BYTES = 1 << 20
_MAX_CHUNK_BYTES = 128 << 20
# Upper estimate of a worker's memory: its table of pieces, sorted arrays and write buffer, on text with few
# repetitions (Chinese and Japanese prose).
WORKER_BYTES_PER_CHUNK_BYTE = 2.5


@dataclass(frozen=True)
class Budget:
    """A limit in bytes, and how much of it is taken whatever the workers do. given: whether somebody asked for it.

    worker_bytes: what a worker takes before it begins.
    """

    limit_bytes: int
    taken_bytes: int
    given: bool
    worker_bytes: int = WORKER_BYTES
    of_cluster: bool = False

    def workers(self, asked: int) -> int:
        """How many workers, of those asked for, have room enough to work at the same time.

        Raises `UsageError` where not even one has.
        """
        each = self.worker_bytes + LEAST_ROOM_BYTES
        fitting = (self.limit_bytes - self.taken_bytes) // each
        if fitting < 1:
            least = format_bytes(self.taken_bytes + each)
            what = "--memory-limit" if self.given else "the memory that is free,"
            remedy = "give at least" if self.given else "free some, or ask for --memory-limit"
            raise UsageError(
                f"{what} {format_bytes(self.limit_bytes)} is too small: the processes and the smallest room for work "
                f"take {least}; {remedy} {least}"
            )
        return min(asked, fitting)

    def room(self, workers: int) -> int:
        """Bytes for the work of each of so many workers, beside what a worker takes before it begins."""
        return max((self.limit_bytes - self.taken_bytes) // workers - self.worker_bytes, 0)


def budget(memory_limit: int | None, nodes: Sequence[Node] = ()) -> Budget:
    """The budget as it is now: the limit that was asked for, or 80 % of what is free beside what we have already.

    With nodes: on each of them, the limit that was asked for within what the smallest lends to tasks.
    """
    if nodes:
        return _of_nodes(memory_limit, nodes)
    own = max(machine.own_memory(), COORDINATOR_BYTES) + COORDINATOR_GROWTH_BYTES
    taken = own + FORK_SERVER_BYTES + ARROW_BYTES
    if memory_limit is not None:
        return Budget(memory_limit, taken, given=True)
    limit = int(machine.available_memory() * _SHARE) + machine.process_tree_memory()
    return Budget(limit, taken, given=False)


def _of_nodes(memory_limit: int | None, nodes: Sequence[Node]) -> Budget:
    lent = min(node.memory_bytes for node in nodes)
    limit = lent if memory_limit is None else min(memory_limit, lent)
    return Budget(limit, ARROW_BYTES, memory_limit is not None, CLUSTER_WORKER_BYTES, of_cluster=True)


@dataclass(frozen=True)
class Workers:
    """How many workers a stage has, and the bytes that each has for its work.

    budget: of each machine. on_one: how many workers share a machine at most.
    """

    budget: Budget
    count: int
    on_one: int
    work_bytes: int

    @property
    def at_once(self) -> int | None:
        """How many tasks run at the same time; None on a cluster, whose executor knows, since nodes join and leave."""
        return None if self.budget.of_cluster else self.count

    @property
    def need(self) -> Need:
        """What one task needs of a machine."""
        return Need(memory_bytes=self.budget.worker_bytes + self.work_bytes)


def counting_workers(options: Options, chunks: int, nodes: Sequence[Node] = ()) -> Workers:
    """Return the workers that count that many chunks, on this machine or on some nodes."""
    whole = budget(options.memory_limit, nodes)
    if nodes:
        on_one = whole.workers(max(node.cores for node in nodes))
        available = sum(min(node.cores, on_one) for node in nodes)
        count = min(available, options.workers or available, max(chunks, 1))
        return Workers(whole, count, min(on_one, count), whole.room(on_one) - WRITE_BYTES)
    count = whole.workers(max(1, min(worker_count(options), chunks)))
    return Workers(whole, count, count, whole.room(count) - WRITE_BYTES)


def threads(options: Options, nodes: Sequence[Node] = ()) -> int:
    """Return the threads of a stage that runs in one process: more than there are cores would wait for each other."""
    if nodes:
        return min(options.workers or _MOST_THREADS, _MOST_THREADS, max(node.cores for node in nodes))
    return min(worker_count(options), machine.usable_cores())


def default_chunk_bytes(corpus_bytes: int, workers: int, memory_bytes: int) -> int:
    """Return the bytes of a chunk: the fewest chunks that memory allows, the same number for each worker.

    Fewer chunks mean fewer counters to sort, write and read; equal numbers mean that all workers end together.
    """
    by_memory = int(memory_bytes / workers / WORKER_BYTES_PER_CHUNK_BYTE)
    most = max(_MIN_CHUNK_BYTES, min(by_memory, _MAX_CHUNK_BYTES))
    rounds = -(-corpus_bytes // (workers * most))
    return max(_MIN_CHUNK_BYTES, -(-corpus_bytes // (workers * max(1, rounds))))
