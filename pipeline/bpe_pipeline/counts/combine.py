"""The combined counter of a run: made by one worker on this machine, by many on the nodes of a cluster.

On a cluster of several nodes each worker combines a share of the hashes, from all counters; no node needs all
pre-tokens at once. There are a few shares for each core, not more: every share opens every counter. On one machine
counters of many gibibytes are combined in shares, one after the other. The shares are files in the run directory, kept
until they are joined, so that what was combined when a run was stopped stays combined. Processes that are parts
(`--part`) combine shares, too: as many as the sum has partitions, so that the counter is the same file.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bpe_pipeline.base.memory import Grant
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.combine_worker import COMBINE_BYTES, CombineTask, combine, join
from bpe_pipeline.counts.counter_file import CounterFacts, Sum, Term, counters_of, look_at, partitions_for
from bpe_pipeline.executors import Executor, Need
from bpe_pipeline.run.manifest import MOST_RANGES, Run
from bpe_pipeline.run.memory import WRITE_BYTES
from bpe_pipeline.run.parts import PartDone
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.storage import Location, existing, names_in, remove

COMBINING = "combining"
_SHARES_A_CORE = 2  # so that all cores finish together
SHARE_BYTES = 2 << 30  # of counters in a share on one machine: some ten seconds of work


def combine_counters(runner: Runner, run: Run, total: Sum, instead: tuple[Location, str] | None = None) -> CounterFacts:
    """Write the combined counter of a run, or `instead` one at this location and with this fingerprint."""
    combining = _combining(runner, run, total, *(instead or run.counter))
    counters = counters_of(total.terms)
    shares = sum(path.stat().st_size for path, _ in counters if isinstance(path, Path)) // SHARE_BYTES
    task = combining.task
    if len(runner.nodes) > 1:
        grant = runner.reserve(MOST_RANGES, wanted=COMBINE_BYTES + WRITE_BYTES)
        task = replace(task, threads=1, memory_bytes=grant.bytes - WRITE_BYTES)
        combining = _Combining(task, grant, None)
        shares = min(_SHARES_A_CORE * sum(node.cores for node in runner.nodes), len(counters))
    elif (shares < 2 or instead is not None) and not _combined_by_parts(runner, run, task.fingerprint):
        [facts] = runner.run(Stage(COMBINING, "counters", combine, [task], [len(counters)], need=combining.need))
        return facts
    # Of how many shares those are that were combined before; the cluster may have had other nodes then.
    before = _shares_there(run)
    shares = max(before, default=1 << (min(shares, MOST_RANGES) - 1).bit_length())
    stage = combining.of_shares(runner, run, shares)
    runner.run(stage)
    parts_of_sum = _share_files(run, shares, task.fingerprint)
    [facts] = runner.run(
        Stage(COMBINING, "counters", join, [replace(task, terms=[Term(parts_of_sum)])], [len(counters)])
    )
    for path in (run.share_path(index, of) for of in {shares, *before} for index in range(of)):
        remove(path)
    return facts


def combine_part(runner: Runner, run: Run, total: Sum) -> PartDone:
    """Combine the shares of the runner's part that are missing; the command without a part joins all.

    Raises `RunDirectoryError` if another process works in the directory alone meanwhile.
    """
    assert runner.part is not None, "a part"
    facts = [one for one in look_at(counters_of(total.terms), runner.executor) if one is not None]
    rows, pre_token_bytes = sum(one.rows for one in facts), sum(one.pre_token_bytes for one in facts)
    shares = min(max(partitions_for(rows, pre_token_bytes) // 2, 1), MOST_RANGES)  # at most the partitions of the sum
    own = [index for index in range(shares) if runner.part.has(index)]
    done, complete = 0, run.counter_path.exists()
    if complete:
        runner.skip(COMBINING)
    else:
        stage = _combining(runner, run, total, *run.counter).of_shares(runner, run, shares)
        done = len(own) - sum(existing([run.share_path(index, shares) for index in own]))
        for _ in runner.each(stage):
            run.directory.require_lock()
    there = shares if complete else sum(existing([run.share_path(index, shares) for index in range(shares)]))
    is_complete = "the counter is complete" if complete else ""
    return PartDone(str(runner.part), len(own), done, there, shares, "combined", "shares", is_complete)


@dataclass(frozen=True)
class _Combining:
    """How counters are added: a task for all of them, and the memory that it takes."""

    task: CombineTask
    grant: Grant
    need: Need | None

    def of_shares(self, runner: Runner, run: Run, shares: int) -> Stage[CombineTask, CounterFacts]:
        """Return the stage that combines the shares of a run's hashes."""
        files = _share_files(run, shares, self.task.fingerprint)
        of_share = replace(self.task, statistics=ChunkStatistics())
        tasks = [
            replace(of_share, output=path, fingerprint=fingerprint, share=(index, shares))
            for index, (path, fingerprint) in enumerate(files)
        ]
        return Stage(
            COMBINING,
            "shares",
            combine,
            tasks,
            weights=[1] * shares,
            stored=lambda some: own_counters(run, [(one.output, one.fingerprint) for one in some], runner.executor),
            grant=self.grant,
            need=self.need,
        )


def _combining(runner: Runner, run: Run, total: Sum, output: Location, fingerprint: str) -> _Combining:
    """Return how one task after the other adds counters, each with the threads and the memory of all."""
    grant = runner.reserve(wanted=2 * COMBINE_BYTES + WRITE_BYTES)
    task = CombineTask(
        terms=total.terms,
        output=output,
        fingerprint=fingerprint,
        statistics=total.statistics,
        threads=runner.threads,
        memory_bytes=(grant.bytes - WRITE_BYTES) // 2,
        pre_tokens=json.dumps(run.manifest.pre_tokens),
    )
    return _Combining(task, grant, Need(task.threads, grant.worker_bytes + task.memory_bytes + WRITE_BYTES))


def _share_files(run: Run, shares: int, fingerprint: str) -> list[tuple[Location, str]]:
    """Return where the shares of a sum with this fingerprint are, each with its own fingerprint."""
    return [(run.share_path(index, shares), f"{fingerprint}, share {index} of {shares}") for index in range(shares)]


def _shares_there(run: Run) -> set[int]:
    """Return of how many shares those are that are in the directory."""
    names = {*names_in(run.share_path(0, 1).parent)}
    known = (1 << power for power in range(MOST_RANGES.bit_length()))
    return {of for of in known if any(run.share_path(index, of).name in names for index in range(of))}


def _combined_by_parts(runner: Runner, run: Run, fingerprint: str) -> bool:
    """Return whether shares of this sum are in the directory."""
    files = (_share_files(run, of, fingerprint) for of in _shares_there(run))
    return any(facts is not None for some in files for facts in look_at(some, runner.executor))


def own_counters(run: Run, parts: Sequence[tuple[Location, str]], executor: Executor) -> list[CounterFacts | None]:
    """Look at counters of a run; `RunDirectoryError` if a file in the place of one is not the run's."""
    facts = look_at(parts, executor)
    run.directory.refuse_replaced([path for path, _ in parts], facts)
    return facts
