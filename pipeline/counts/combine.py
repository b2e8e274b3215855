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
from pipeline.executors import Need
from pipeline.run import memory
from pipeline.run.manifest import Run
from pipeline.run.work import Work
from pipeline.storage import Location, names_in, remove

_MOST_SHARES = 256  # a power of two
_SHARES_A_CORE = 2  # so that all cores finish together


def combine_counters(work: Work, run: Run, parts: Sequence[tuple[Location, str]], statistics: ChunkStatistics) -> int:
    """Write the combined counter of a run from counters with their fingerprints; returns its rows."""
    nodes = work.nodes
    task = combine_task(work, run, parts, statistics)
    if len(nodes) > 1:
        return _in_shares(work, run, task)
    need = Need(task.threads, memory.CLUSTER_WORKER_BYTES + task.memory_bytes + memory.WRITE_BYTES)
    [(_, rows)] = work.executor.run(combine, [task], need=need)
    return rows


def combine_task(
    work: Work,
    run: Run,
    parts: Sequence[tuple[Location, str]],
    statistics: ChunkStatistics,
    weights: Mapping[Location, tuple[int, int]] | None = None,
    output: Path | None = None,
) -> CombineTask:
    """Return the task that writes a run's combined counter, to `output` if that is given.

    Raises `UsageError` if the memory limit is too small.
    """
    whole = memory.budget(work.options.memory_limit, work.nodes)
    whole.workers(1)  # the coordinator may have taken too much since the start
    budget_bytes = whole.per_worker(1) - memory.WRITE_BYTES
    return CombineTask(
        parts=parts,
        output=output or run.counter_path,
        fingerprint=run.manifest.counter_fingerprint(),
        statistics=statistics,
        threads=memory.threads(work.options, work.nodes),
        memory_bytes=min(COMBINE_BYTES, budget_bytes // 2),
        weights=weights or {},
    )


def _in_shares(work: Work, run: Run, task: CombineTask) -> int:
    workers = memory.counting_workers(work.options, _MOST_SHARES, work.nodes)
    before = _shares_in(run)
    shares = max(before, default=_shares_for(sum(node.cores for node in work.nodes), len(task.parts)))
    parts = [
        (run.share_path(index, shares), f"{task.fingerprint}, share {index} of {shares}") for index in range(shares)
    ]
    stored = look_at(parts, work.executor)
    missing = [
        replace(
            task,
            output=path,
            fingerprint=fingerprint,
            statistics=ChunkStatistics(),
            threads=1,
            memory_bytes=min(COMBINE_BYTES, workers.work_bytes),
            share=(index, shares),
        )
        for index, (path, fingerprint) in enumerate(parts)
        if stored[index] is None
    ]
    for _ in work.executor.run(combine, missing, need=workers.need):
        pass
    [(_, rows)] = work.executor.run(join, [replace(task, parts=parts)])
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
