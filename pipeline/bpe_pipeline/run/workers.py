"""Where a run's work is done: the executor that its options ask for.

It imports little, so that worker processes can start while the coordinator still imports the rest.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bpe_pipeline.executors import DEFAULT_SETUP, Node, WorkerSetup
from bpe_pipeline.executors.local import LocalExecutor
from bpe_pipeline.run.options import ClusterOptions, RayOptions, WorkOptions

if TYPE_CHECKING:
    from bpe_pipeline.executors.ray import RayExecutor

_MOST_THREADS = 16  # of a stage on a node: more gain little and take cores from others


def executor_for(options: ClusterOptions, setup: WorkerSetup) -> "LocalExecutor | RayExecutor":
    """The executor for a run, a context manager."""
    return _on_ray(options.ray, options.workers, setup) if options.ray else executor_here(options, setup)


def _on_ray(address: str, workers: int | None, setup: WorkerSetup) -> "RayExecutor":
    from bpe_pipeline.executors.ray import RayExecutor

    return RayExecutor(address, workers, setup)


def executor_here(options: WorkOptions, setup: WorkerSetup) -> LocalExecutor:
    """The executor for work that this machine does alone."""
    return LocalExecutor(lambda: worker_count(options.workers), setup)


def nodes(options: RayOptions) -> Sequence[Node]:
    """The machines that a run would work on, as they are now; none where that is this one, or no node has cores."""
    if not options.ray:
        return ()
    with _on_ray(options.ray, None, DEFAULT_SETUP) as executor:
        return executor.living()


def worker_count(asked: int | None, tasks: int | None = None, nodes: Sequence[Node] = ()) -> int:
    """Return how many processes may work at the same time, on that many tasks; nodes: of the cluster they run on."""
    from bpe_pipeline.base.machine import default_workers

    cores = sum(node.cores for node in nodes)
    count = min(asked or cores, cores) if nodes else asked or default_workers()
    return count if tasks is None else max(1, min(count, tasks))


def thread_count(asked: int | None, nodes: Sequence[Node] = ()) -> int:
    """Return the threads of a stage that runs in one process: more than there are cores would wait for each other."""
    from bpe_pipeline.base.machine import usable_cores

    if nodes:
        return min(asked or _MOST_THREADS, _MOST_THREADS, max(node.cores for node in nodes))
    return min(worker_count(asked), usable_cores())
