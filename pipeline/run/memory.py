"""Share the memory limit of all processes together: what they take before any work, and the budget of each worker.

The coordinator is measured; what a process takes for the interpreter, this package and Arrow is declared here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.base import machine
from pipeline.base.errors import UsageError
from pipeline.base.units import format_bytes, format_limit
from pipeline.executors import Need, Node
from pipeline.run.options import Options
from pipeline.run.workers import worker_count

_SHARE = 0.8  # of what is free, if no limit is given
COORDINATOR_BYTES = 24 << 20  # the command, at least
COORDINATOR_GROWTH_BYTES = 6 << 20  # more while a stage runs
FORK_SERVER_BYTES = 14 << 20
ARROW_BYTES = 36 << 20  # of the system's, shared by all workers that have it
WORKER_BYTES = 18 << 20  # a worker's own
LEAST_WORK_BYTES = 24 << 20  # for the work of a worker
CLUSTER_WORKER_BYTES = 120 << 20  # a worker's with Ray in it
WRITE_BYTES = 12 << 20  # for writing or reading a partition of a counter
SLACK_BYTES = 4 << 20  # by which the coordinator may differ from one run to the next
_MIN_CHUNK_BYTES = 1 << 20
_MAX_CHUNK_BYTES = 128 << 20
SLOW_CHUNK_BYTES = 8 << 20  # at most, where `regex` cuts: 1 MB/s, a hundredth of what the automaton does
WORKER_BYTES_PER_CHUNK_BYTE = 2.5
_MOST_THREADS = 16  # of a stage on a node: more gain little and take cores from others


@dataclass(frozen=True)
class Budget:
    """A limit in bytes, and what is taken of it before any work."""

    limit_bytes: int
    taken_bytes: int
    given: bool  # by the user
    worker_bytes: int = WORKER_BYTES  # what a worker takes before it starts
    of_cluster: bool = False  # the limit is each node's

    def workers(self, asked: int, later_bytes: int = 0) -> int:
        """Return how many workers, at most `asked`, fit at the same time; `UsageError` if not even one does.

        The error names a limit that also suffices for later stages of the command that take `later_bytes`.
        """
        each = self.worker_bytes + LEAST_WORK_BYTES
        fitting = (self.limit_bytes - self.taken_bytes) // each
        if fitting < 1:
            least = self.taken_bytes + max(each, self.worker_bytes + later_bytes)
            what = "--memory-limit" if self.given else "the memory that is free,"
            remedy = "give at least" if self.given else "free some, or ask for --memory-limit"
            raise UsageError(
                f"{what} {format_bytes(self.limit_bytes)} is too small: the processes and the least work take "
                f"{format_bytes(least)}; {remedy} {format_limit(least + SLACK_BYTES)}"
            )
        return min(asked, fitting)

    def per_worker(self, workers: int) -> int:
        """Return the bytes for the work of each of that many workers, besides what a worker takes before it starts."""
        return max((self.limit_bytes - self.taken_bytes) // workers - self.worker_bytes, 0)


def budget(memory_limit: int | None, nodes: Sequence[Node] = ()) -> Budget:
    """Return the budget: the given limit, or 80 % of the free memory besides our own; with nodes, of the smallest."""
    given = memory_limit is not None
    if nodes:
        lent = min(node.memory_bytes for node in nodes)
        limit = min(memory_limit or lent, lent)
        return Budget(limit, ARROW_BYTES, given, CLUSTER_WORKER_BYTES, of_cluster=True)
    limit = memory_limit or int(machine.available_memory() * _SHARE) + machine.process_tree_memory()
    own = max(machine.own_memory(), COORDINATOR_BYTES) + COORDINATOR_GROWTH_BYTES
    return Budget(limit, own + FORK_SERVER_BYTES + ARROW_BYTES, given)


@dataclass(frozen=True)
class Workers:
    """How many workers a stage has, and the bytes that each has for its work."""

    budget: Budget  # of each machine
    count: int
    on_one: int  # how many share a machine at most
    work_bytes: int

    @property
    def beside_bytes(self) -> int:
        """What each worker takes of the limit besides the bytes for its work."""
        return self.budget.worker_bytes + WRITE_BYTES

    @property
    def at_once(self) -> int | None:
        """How many tasks run at the same time; None on a cluster, whose executor knows, since nodes join and leave."""
        return None if self.budget.of_cluster else self.count

    @property
    def need(self) -> Need:
        """What one task needs of a machine."""
        return Need(memory_bytes=self.budget.worker_bytes + self.work_bytes)


def counting_workers(options: Options, chunks: int, nodes: Sequence[Node] = (), later_bytes: int = 0) -> Workers:
    """Return the workers that count that many chunks, on this machine or on some nodes."""
    whole = budget(options.memory_limit, nodes)
    if nodes:
        on_one = whole.workers(max(node.cores for node in nodes))
        available = sum(min(node.cores, on_one) for node in nodes)
        count = min(available, options.workers or available, max(chunks, 1))
        return Workers(whole, count, min(on_one, count), whole.per_worker(on_one) - WRITE_BYTES)
    count = whole.workers(max(1, min(worker_count(options), chunks)), later_bytes)
    return Workers(whole, count, count, whole.per_worker(count) - WRITE_BYTES)


def threads(options: Options, nodes: Sequence[Node] = ()) -> int:
    """Return the threads of a stage that runs in one process: more than there are cores would wait for each other."""
    if nodes:
        return min(options.workers or _MOST_THREADS, _MOST_THREADS, max(node.cores for node in nodes))
    return min(worker_count(options), machine.usable_cores())


def default_chunk_bytes(corpus_bytes: int, workers: int, memory_bytes: int, *, slow: bool = False) -> int:
    """Return the bytes of a chunk: the fewest chunks that memory allows, the same number for each worker.

    Fewer chunks mean fewer counters to sort, write and read; equal numbers mean that all workers end together. slow:
    the pattern runs on `regex`; a chunk takes seconds in either case, and no more is lost by a kill.
    """
    by_memory = int(memory_bytes / workers / WORKER_BYTES_PER_CHUNK_BYTE)
    most = max(_MIN_CHUNK_BYTES, min(by_memory, SLOW_CHUNK_BYTES if slow else _MAX_CHUNK_BYTES))
    rounds = -(-corpus_bytes // (workers * most))
    return max(_MIN_CHUNK_BYTES, -(-corpus_bytes // (workers * max(1, rounds))))
