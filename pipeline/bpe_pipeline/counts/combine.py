"""The combined counter of a run: made by one worker on this machine, by many on the nodes of a cluster.

On a cluster of several nodes each worker combines a share of the hashes, from all counters; no node needs all
pre-tokens at once. There are a few shares for each core, not more: every share opens every counter. On one machine
counters of many gibibytes are combined in shares, one after the other. The shares are files in the run directory, kept
until they are joined, so that what was combined when a run was stopped stays combined. Processes that are parts
(`--part`) combine shares, too: as many as the sum has partitions, so that the counter is the same file.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from bpe_pipeline.base.memory import Grant
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.combine_worker import COMBINE_BYTES, CombineTask, combine, join
from bpe_pipeline.counts.counter_file import CounterFacts, Sum, Term, counters_of, look_at, partitions_for
from bpe_pipeline.executors import Need
from bpe_pipeline.run.directory import COUNTS
from bpe_pipeline.run.manifest import MOST_SHARES, Run, shares_there
from bpe_pipeline.run.memory import WRITE_BYTES
from bpe_pipeline.run.parts import PartDone
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.storage import Location, existing, remove

COMBINING = "combining"
_SHARES_A_CORE = 2  # so that all cores finish together
SHARE_BYTES = 2 << 30  # of counters in a share on one machine: some ten seconds of work


def combine_counters(runner: Runner, run: Run, total: Sum, instead: Location | None = None) -> CounterFacts:
    """Write the combined counter of a run, or the same one at this location."""
    combining = _combining(runner, run, total, instead or run.counter_path)
    counters = counters_of(total.terms)
    shares = sum(path.stat().st_size for path, _ in counters if isinstance(path, Path)) // SHARE_BYTES
    task, before = combining.task, {*shares_there(run).values()}  # the cluster may have had other nodes then
    if len(runner.nodes) > 1:
        grant = runner.reserve(MOST_SHARES, wanted=COMBINE_BYTES + WRITE_BYTES)
        task = replace(task, threads=1, memory_bytes=grant.bytes - WRITE_BYTES)
        combining = _Combining(task, grant, None)
        shares = min(_SHARES_A_CORE * sum(node.cores for node in runner.nodes), len(counters))
    elif (shares < 2 or instead is not None) and not before:
        [facts] = runner.run(Stage(COMBINING, "counters", combine, [task], [len(counters)], need=combining.need))
        return facts
    shares = max(before, default=1 << (min(shares, MOST_SHARES) - 1).bit_length())
    runner.run(combining.of_shares(run, shares))
    whole = replace(task, terms=[Term(_share_counters(run, shares))])
    [facts] = runner.run(Stage(COMBINING, "counters", join, [whole], [len(counters)]))
    for path in (path for of in {shares, *before} for path, _ in _share_counters(run, of)):
        remove(path)
    return facts


def combine_part(runner: Runner, run: Run, total: Sum) -> PartDone:
    """Combine the shares of the runner's part that are missing; the command without a part joins all."""
    assert runner.part is not None, "a part"
    facts = [one for one in look_at(counters_of(total.terms), runner.executor) if one is not None]
    rows, pre_token_bytes = sum(one.rows for one in facts), sum(one.pre_token_bytes for one in facts)
    partitions = partitions_for(rows, pre_token_bytes)
    shares = min(max(partitions // 2, 1), MOST_SHARES)  # at most the partitions of the sum
    own = [index for index in range(shares) if runner.part.has(index)]
    if run.counter_path.exists():
        runner.skip(COMBINING)
        return PartDone(str(runner.part), len(own), 0, shares, shares, "combined", "shares", "the counter is complete")
    done = runner.run(_combining(runner, run, total, run.counter_path).of_shares(run, shares))
    there = sum(existing([path for path, _ in _share_counters(run, shares)]))
    return PartDone(str(runner.part), len(own), len(done), there, shares, "combined", "shares")


@dataclass(frozen=True)
class _Combining:
    """How counters are added: a task for all of them, and the memory that it takes."""

    task: CombineTask
    grant: Grant
    need: Need | None

    def of_shares(self, run: Run, shares: int) -> Stage[CombineTask, CounterFacts]:
        """Return the stage that combines the shares of a run's hashes."""
        of_share, counters = replace(self.task, statistics=ChunkStatistics()), _share_counters(run, shares)
        tasks = [
            replace(of_share, output=path, fingerprint=key, share=(index, shares))
            for index, (path, key) in enumerate(counters)
        ]
        there = existing([path for path, _ in counters])
        return Stage(
            COMBINING,
            "shares",
            combine,
            tasks,
            weights=[1] * shares,
            done={index for index, is_there in enumerate(there) if is_there},
            grant=self.grant,
            need=self.need,
        )


def _combining(runner: Runner, run: Run, total: Sum, output: Location) -> _Combining:
    """Return how one task after the other adds counters, each with the threads and the memory of all."""
    grant = runner.reserve(wanted=2 * COMBINE_BYTES + WRITE_BYTES)
    task = CombineTask(
        terms=total.terms,
        output=output,
        fingerprint=run.manifest.counter_fingerprint,
        statistics=total.statistics,
        threads=runner.threads,
        memory_bytes=(grant.bytes - WRITE_BYTES) // 2,
        pre_tokens=json.dumps(run.manifest.pre_tokens),
    )
    return _Combining(task, grant, Need(task.threads, grant.worker_bytes + task.memory_bytes + WRITE_BYTES))


def _share_counters(run: Run, shares: int) -> list[tuple[Location, str]]:
    """Return where ranges of the hashes are kept until the combined counter is whole, each with its key."""
    names, key = run.manifest.names_of_shares(shares), run.manifest.counter_fingerprint
    home = run.directory / COUNTS
    return [(home / name, f"{key}, share {index} of {shares}") for index, name in enumerate(names)]
