"""The combined counter of a run: made by one worker on this machine, by many on the nodes of a cluster.

On a cluster of several nodes each worker combines a share of the hashes, from all counters; no node needs all pieces at
once. There are a few shares for each core, not more: every share opens every counter. On one machine counters of many
gibibytes are combined in shares, one after the other. The shares are files in the run directory, kept until they are
joined, so that what was combined when a run was stopped stays combined.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.base.memory import Grant
from pipeline.counts.chunk_statistics import ChunkStatistics
from pipeline.counts.combine_worker import COMBINE_BYTES, CombineTask, combine, join
from pipeline.counts.counter_file import CounterFacts, Parts, look_at
from pipeline.executors import Executor, Need
from pipeline.run.manifest import MOST_RANGES, Run
from pipeline.run.memory import WRITE_BYTES
from pipeline.run.runner import Runner, Stage
from pipeline.storage import Location, names_in, remove

COMBINING = "combining"
_SHARES_A_CORE = 2  # so that all cores finish together
SHARE_BYTES = 2 << 30  # of counters in a share on one machine: some ten seconds of work


def combine_counters(
    runner: Runner, run: Run, parts: Parts, instead: tuple[Location, str] | None = None
) -> CounterFacts:
    """Write the combined counter of a run, or `instead` one at this location and with this fingerprint."""
    nodes, grant = runner.nodes, runner.reserve(wanted=2 * COMBINE_BYTES + WRITE_BYTES)
    output, fingerprint = instead or run.counter
    task = CombineTask(
        parts=parts.counters,
        output=output,
        fingerprint=fingerprint,
        statistics=parts.statistics,
        threads=runner.threads,
        memory_bytes=(grant.bytes - WRITE_BYTES) // 2,
        weights=parts.weights,
    )
    need: Need | None = Need(task.threads, grant.worker_bytes + task.memory_bytes + WRITE_BYTES)
    shares = sum(path.stat().st_size for path, _ in parts.counters if isinstance(path, Path)) // SHARE_BYTES
    if len(nodes) > 1:
        grant, need = runner.reserve(MOST_RANGES, wanted=COMBINE_BYTES + WRITE_BYTES), None
        task = replace(task, threads=1, memory_bytes=grant.bytes - WRITE_BYTES)
        shares = min(_SHARES_A_CORE * sum(node.cores for node in nodes), len(task.parts))
    elif shares < 2 or instead is not None or parts.weights:
        [facts] = runner.run(Stage(COMBINING, "counters", combine, [task], [len(task.parts)], need=need))
        return facts
    return _in_shares(runner, run, task, shares, grant, need)


def _in_shares(runner: Runner, run: Run, task: CombineTask, most: int, grant: Grant, need: Need | None) -> CounterFacts:
    """Combine shares by tasks that are otherwise like this one, and join them."""
    names = {*names_in(run.share_path(0, 1).parent)}
    # Of how many shares those are that were combined before; the cluster may have had other nodes then.
    known = (1 << power for power in range(MOST_RANGES.bit_length()))
    before = {of for of in known if any(run.share_path(index, of).name in names for index in range(of))}
    shares = max(before, default=1 << (min(most, MOST_RANGES) - 1).bit_length())
    parts = [
        (run.share_path(index, shares), f"{task.fingerprint}, share {index} of {shares}") for index in range(shares)
    ]
    of_share = replace(task, statistics=ChunkStatistics())
    tasks = [
        replace(of_share, output=path, fingerprint=fingerprint, share=(index, shares))
        for index, (path, fingerprint) in enumerate(parts)
    ]

    combining = Stage(
        COMBINING,
        "shares",
        combine,
        tasks,
        weights=[1] * shares,
        stored=lambda _: own_counters(run, parts, runner.executor),
        grant=grant,
        need=need,
    )
    runner.run(combining)
    [facts] = runner.run(Stage(COMBINING, "counters", join, [replace(task, parts=parts)], [len(task.parts)]))
    for path in (run.share_path(index, of) for of in {shares, *before} for index in range(of)):
        remove(path)
    return facts


def own_counters(run: Run, parts: Sequence[tuple[Location, str]], executor: Executor) -> list[CounterFacts | None]:
    """Look at counters of a run; `RunDirectoryError` if a file in the place of one is not the run's."""
    facts = look_at(parts, executor)
    run.directory.refuse_replaced([path for path, _ in parts], facts)
    return facts
