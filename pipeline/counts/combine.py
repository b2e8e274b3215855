"""The combined counter of a run: made by one worker on this machine, by many on the nodes of a cluster.

On a cluster of several nodes each worker combines a share of the hashes, from all counters; no node needs all pieces at
once. The shares are files in the run directory, kept until they are joined, so that what was combined when a run was
stopped stays combined. There are a few for each core, not more: every share opens every counter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.combine_worker import COMBINE_BYTES, CombineTask, combine, join
from pipeline.counts.counter_file import look_at
from pipeline.executors import Executor, Need, Node
from pipeline.run import memory, plan
from pipeline.run.manifest import Run
from pipeline.run.options import Options
from pipeline.storage import Location, names_in, remove

_MOST_SHARES = 256  # a power of two
_SHARES_A_CORE = 2  # so that all end together


def combine_counters(
    run: Run, parts: Sequence[tuple[Location, str]], statistics: ChunkStatistics, options: Options, executor: Executor
) -> int:
    """Write the combined counter of a run from counters with their fingerprints; gives its rows."""
    nodes = executor.nodes()
    task = combine_task(run, parts, statistics, options, nodes=nodes)
    if len(nodes) > 1:
        return _in_shares(run, task, executor, plan.share_of(options, _MOST_SHARES, nodes))
    need = Need(task.threads, memory.CLUSTER_WORKER_BYTES + task.memory_bytes + memory.WRITE_BYTES)
    [(_, rows)] = executor.run(combine, [task], need=need)
    return rows


def combine_task(
    run: Run,
    parts: Sequence[tuple[Location, str]],
    statistics: ChunkStatistics,
    options: Options,
    weights: Mapping[Location, tuple[int, int]] | None = None,
    beside: Path | None = None,
    nodes: Sequence[Node] = (),
) -> CombineTask:
    """The task that makes a run's combined counter of counters with their fingerprints: in its place, or `beside`.

    Raises `UsageError` where the limit has no room left for it.
    """
    whole = memory.budget(options.memory_limit, nodes)
    whole.workers(1)  # what the coordinator has taken since the start may leave no room
    room = whole.room(1) - memory.WRITE_BYTES
    return CombineTask(
        parts=parts,
        output=beside or run.counter_path,
        fingerprint=run.manifest.counter_fingerprint(),
        statistics=statistics,
        threads=plan.threads(options, nodes),
        memory_bytes=min(COMBINE_BYTES, room // 2),
        weights=weights or {},
    )


def _in_shares(run: Run, task: CombineTask, executor: Executor, share: plan.Share) -> int:
    before = _shares_in(run)
    shares = max(before, default=_shares_for(sum(node.cores for node in executor.nodes()), len(task.parts)))
    parts = [
        (run.share_path(index, shares), f"{task.fingerprint}, share {index} of {shares}") for index in range(shares)
    ]
    there = look_at(parts, executor)
    missing = [
        replace(
            task,
            output=path,
            fingerprint=fingerprint,
            statistics=ChunkStatistics(),
            threads=1,
            memory_bytes=min(COMBINE_BYTES, share.room_bytes),
            share=(index, shares),
        )
        for index, (path, fingerprint) in enumerate(parts)
        if there[index] is None
    ]
    for _ in executor.run(combine, missing, need=Need(memory_bytes=share.budget.worker_bytes + share.room_bytes)):
        pass
    [(_, rows)] = executor.run(join, [replace(task, parts=parts)])
    for path in (run.share_path(index, of) for of in {shares, *before} for index in range(of)):
        remove(path)
    return rows


def _shares_for(cores: int, counters: int) -> int:
    most = min(_SHARES_A_CORE * cores, counters, _MOST_SHARES)
    return 1 << (most - 1).bit_length()


def _shares_in(run: Run) -> set[int]:
    """Of how many shares those are that were combined before; a cluster may have had other nodes then."""
    names = names_in(run.share_path(0, 1).parent)
    return {int(name.rpartition("-")[2].removesuffix(".parquet")) for name in names if name.startswith("share-")}
