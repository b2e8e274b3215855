"""The combined counter of a run: made by one worker on this machine, by many on the nodes of a cluster.

On a cluster of several nodes each worker combines a share of the hashes, from all counters; no node needs all
pre-tokens at once. There are a few shares for each core, not more: every share opens every counter. On one machine
counters of many gibibytes are combined in shares, one after the other. The shares are files in the run directory, kept
until they are joined, so that what was combined when a run was stopped stays combined. Processes that are parts
(`--part`) combine shares, too: as many as the sum has partitions, so that the counter is the same file.

Counts that no corpus listing gave, combined from other runs or counted from an iterator, become a run with a `source`
in its manifest instead of a plan. `merge` continues with its combined counter as with any other, and nothing can be
counted into it. The counter is made first, next to what the directory holds, which is replaced only when it is whole: a
source that is refused, or a command that is killed, costs nothing.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from bpe_pipeline.base.errors import RunDirectoryError, os_error_as
from bpe_pipeline.counts.chunk_statistics import ChunkStatistics
from bpe_pipeline.counts.combine_worker import COMBINE_BYTES, CombineTask, combine, join
from bpe_pipeline.counts.counted import Counted, as_counted, check_facts, find_counted
from bpe_pipeline.counts.counter_file import (
    CounterFacts,
    PartPath,
    Sum,
    Term,
    counters_of,
    look_at,
    part_paths,
    partitions_for,
)
from bpe_pipeline.executors import Need
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import COUNTS, KEY_DIGITS
from bpe_pipeline.run.make_options import refuse_other_options
from bpe_pipeline.run.manifest import MOST_SHARES, Run
from bpe_pipeline.run.memory import WRITE_BYTES
from bpe_pipeline.run.open_run import replace_run
from bpe_pipeline.run.options import CorpusOptions, OutputOptions
from bpe_pipeline.run.parts import PartDone
from bpe_pipeline.run.runner import Runner, Stage
from bpe_pipeline.storage import Location, existing, remove
from bpe_pipeline.storage.atomic import make_directory, put

COMBINING = "combining"
_SHARES_A_CORE = 2  # so that all cores finish together
SHARE_BYTES = 2 << 30  # of counters in a share on one machine: some ten seconds of work


def combine_counters(runner: Runner, run: Run, total: Sum, instead: Location | None = None) -> CounterFacts:
    """Write the combined counter of a run, or the same one at this location."""
    whole = _combining(runner, run, total, instead or run.counter_path)
    [task], before = whole.tasks, run.shares().values()  # the cluster may have had other nodes then
    counters = counters_of(total.terms)
    shares = sum(path.stat().st_size for path, _ in counters if isinstance(path, Path)) // SHARE_BYTES
    if len(runner.nodes) > 1:
        grant = runner.reserve(MOST_SHARES, wanted=COMBINE_BYTES + WRITE_BYTES)
        task = replace(task, threads=1, memory_bytes=grant.bytes - WRITE_BYTES)
        whole = replace(whole, tasks=[task], grant=grant, need=None)
        shares = min(_SHARES_A_CORE * sum(node.cores for node in runner.nodes), len(counters))
    elif (shares < 2 or instead is not None) and not before:
        [facts] = runner.run(whole)
        return facts
    shares = max(before, default=1 << (min(shares, MOST_SHARES) - 1).bit_length())
    runner.run(_in_shares(whole, run, shares))
    joined = replace(task, terms=[Term(_share_counters(run, shares))])
    [facts] = runner.run(replace(whole, do=join, tasks=[joined], grant=None, need=None))
    for name in run.shares():
        remove(run.directory / COUNTS / name)
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
    done = runner.run(_in_shares(_combining(runner, run, total, run.counter_path), run, shares))
    there = sum(existing([path for path, _ in _share_counters(run, shares)]))
    return PartDone(str(runner.part), len(own), len(done), there, shares, "combined", "shares")


def _combining(runner: Runner, run: Run, total: Sum, output: Location) -> Stage[CombineTask, CounterFacts]:
    """Return the stage of one task that adds all counters, with the threads and the memory of all."""
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
    need = Need(task.threads, grant.worker_bytes + task.memory_bytes + WRITE_BYTES)
    return Stage(COMBINING, "counters", combine, [task], [len(counters_of(total.terms))], grant=grant, need=need)


def _in_shares(whole: Stage[CombineTask, CounterFacts], run: Run, shares: int) -> Stage[CombineTask, CounterFacts]:
    """Return a stage with a task for each share of the hashes in place of the one for all."""
    of_share, counters = replace(whole.tasks[0], statistics=ChunkStatistics()), _share_counters(run, shares)
    there = existing([path for path, _ in counters])
    return replace(
        whole,
        unit="shares",
        tasks=[
            replace(of_share, output=path, fingerprint=key, share=(index, shares))
            for index, (path, key) in enumerate(counters)
        ],
        weights=[1] * shares,
        done={index for index, is_there in enumerate(there) if is_there},
    )


def _share_counters(run: Run, shares: int) -> list[tuple[Location, str]]:
    """Return where ranges of the hashes are kept until the combined counter is whole, each with its key."""
    home, key = run.directory / COUNTS, run.manifest.counter_fingerprint
    name = f"share-{{:03d}}-of-{shares:03d}-{key[:KEY_DIGITS]}.parquet"
    return [(home / name.format(index), f"{key}, share {index} of {shares}") for index in range(shares)]


@contextlib.contextmanager
def take_counts(
    runner: Runner, new: Run, options: OutputOptions, make: Callable[[Run, PartPath], Sum]
) -> Iterator[tuple[Run, Counted]]:
    """Yield the run of a source, and log: the one in the directory, or this new one of what `make` returns."""
    runner.kept = None
    directory, stored = new.directory, _stored(new, options)
    run = stored or new
    counted = None if stored is None else find_counted(stored, runner.executor)
    if counted is not None:
        runner.skip(COMBINING)
    else:
        with part_paths(run.counter_path) as part_path:
            whole = part_path("whole")
            total = make(run, part_path)
            strict = isinstance(options, CorpusOptions) and options.fail_on_loss
            check_facts(as_counted(run, CounterFacts(0, total.statistics)).facts, fail_on_loss=strict)
            counter = combine_counters(runner, run, total, whole)
            runner.kept = ""
            directory.require_lock()
            if stored is None:
                run = replace_run(run, results=True)
            with os_error_as(RunDirectoryError, f"{run.counter_path} cannot be written", "run the same command again"):
                put(whole, run.counter_path)
        counted = as_counted(run, counter)
    runner.kept = ""
    with runner.logged(directory, options, run.remove_partial):
        yield run, counted


def take_part(runner: Runner, new: Run, options: OutputOptions, total: Sum) -> tuple[Run, PartDone]:
    """Combine the runner's part of the counts of a source, in the run that the first process makes."""
    stored = _stored(new, options)
    if stored is None and not manifest.save(new, absent=True):  # another process was first
        stored = _stored(new, options)
    run = stored or new
    make_directory(run.directory / COUNTS)
    with runner.logged(run.directory, options, lambda: None):
        return run, combine_part(runner, run, total)


def _stored(new: Run, options: OutputOptions) -> Run | None:
    """Return the run in the directory, if it is this one; `RunDirectoryError` for something else there."""
    stored = None if options.overwrite else manifest.load(new.directory.location)
    if stored is not None:
        _refuse_other(stored, new)
        return stored
    new.directory.refuse_linked_directories()
    if not options.overwrite:
        new.directory.refuse_foreign_files()
    return None


def _refuse_other(stored: Run, new: Run) -> None:
    """Raise `RunDirectoryError` if the directory holds other counts."""
    if stored.manifest.counter_fingerprint == new.manifest.counter_fingerprint:
        return
    there, wanted = (run.manifest.counting | run.manifest.cutting for run in (stored, new))
    refuse_other_options(stored.directory, "counting", there, wanted)
    came_from, now = (source.description if (source := run.manifest.source) else "a corpus" for run in (stored, new))
    other = f"not from {now}" if now != came_from else "whose counts were others then"
    raise RunDirectoryError(
        f"{stored.directory} holds another run: its counts came from {came_from}, {other}; choose another "
        "--output, or start again with --overwrite"
    )
