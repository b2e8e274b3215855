"""Merge in a worker, as far as the merge list is not stored yet."""

import time
from collections.abc import Sequence
from dataclasses import replace

from pipeline.base.events import Advanced, Listener, StageEnded, StageStarted
from pipeline.counts.count import Counted
from pipeline.executors import ONE_CORE, Executor, Need, Node
from pipeline.merges import merge_worker
from pipeline.merges.forecast import Sharing
from pipeline.merges.merge_list import MergeList
from pipeline.merges.rules import MergeRules
from pipeline.run.directory import fingerprint
from pipeline.run.files import MERGES_SO_FAR
from pipeline.run.manifest import Run
from pipeline.run.memory import Broker
from pipeline.run.open_run import cut_by
from pipeline.run.options import Options
from pipeline.run.superwords import coarse_pattern
from pipeline.run.work import Work
from pipeline.run.workers import thread_count
from pipeline.storage import existing, remove

STAGE = "merging"
_SHARE_FROM_BYTES = 1 << 30  # of pieces: one node takes a minute
_COORDINATING_BYTES = 512 << 20  # of the task that asks the parts: sums and counts of pairs


def merges_fingerprint(run: Run, options: Options) -> str:
    """Return what a run's merge list depends on, its length aside; these options are the run's."""
    found, coarse = run.manifest.merge_fingerprint(), coarse_pattern(options)
    return found if coarse is None else fingerprint(found, cut_by(coarse))


def task_of(work: Work, run: Run, counted: Counted) -> merge_worker.MergeTask:
    """Return the task of merging a counter as the options say."""
    options, nodes = work.options, work.nodes
    largest = [max(nodes, key=lambda node: node.memory_bytes)] if nodes else []
    return merge_worker.MergeTask(
        counter=counted.path,
        counter_fingerprint=counted.fingerprint,
        merges=merges_for(options),
        rules=MergeRules.of(options),
        threads=thread_count(options, nodes),
        output=run.merges_path,
        so_far=run.directory / MERGES_SO_FAR,
        fingerprint=merges_fingerprint(run, options),
        grant=work.broker.everything_free(largest),
        sharing=sharing(work.broker, options, nodes) if run.manifest.parity is None else None,
        parity=run.manifest.parity,
    )


def sharing(broker: Broker, options: Options, nodes: Sequence[Node]) -> Sharing | None:
    """Return how the nodes of a cluster may share the words; None if there are not several."""
    parts = min(len(nodes), options.workers or len(nodes))
    if parts < 2:
        return None
    of_part = replace(options, workers=options.workers and -(-options.workers // parts))
    budget_bytes = broker.everything(nodes).bytes - _COORDINATING_BYTES
    return Sharing(parts, thread_count(of_part, nodes), budget_bytes, _SHARE_FROM_BYTES)


def require_memory(work: Work, run: Run, counted: Counted) -> None:
    """Raise `TrainingError` if merging by these options cannot fit: before the results of others are deleted."""
    asked = replace(run, manifest=replace(run.manifest, merging=work.options.of_stage("merge")))
    list(work.executor.run(merge_worker.check, [task_of(work, asked, counted)]))


def merges_for(options: Options) -> int:
    """Return the number of merges in the largest vocabulary asked for."""
    return max(map(options.special.merge_budget, options.vocab_size))


def learn(work: Work, run: Run, counted: Counted) -> MergeList:
    """Return a list of as many merges as are asked for, or all there are: the stored one, or a new one, stored."""
    return learn_task(work, task_of(work, run, counted))


def learn_task(work: Work, task: merge_worker.MergeTask, stage: str = STAGE) -> MergeList:
    """Return the list of a task: the stored one, or a new one, stored."""
    if (found := stored(task, work.executor)) is not None:
        work.times[stage] = None
        return found
    work.directory.require_lock()
    before = max(_known(task, work.executor), task.first.merges if task.first else 0)
    with work.stage(stage, task.merges, "merges", before) as advance:
        need = ONE_CORE
        if work.nodes:  # the memory it needs chooses the node
            [(_, way)] = work.executor.run(merge_worker.check, [task])
            need = Need(task.threads, way.bytes + task.grant.other_bytes)
            if way.passes and task.sharing:
                work.inform(
                    f"the memory of {task.sharing.parts} nodes is too small for all pieces: one of them merges with "
                    f"words on disk, in about {way.passes} passes, {way.times_longer:.1f} times as long as in memory; "
                    "add nodes, or give a larger --memory-limit"
                )
            if way.parts > 1:
                need = Need(memory_bytes=_COORDINATING_BYTES)
        [(_, learned)] = work.executor.run(merge_worker.learn, [task], advance, need=need)
    remove(task.so_far)
    work.kept = f"all counts, {len(learned):,} merges"
    return learned


def read(work: Work, run: Run, options: Options) -> MergeList | None:
    """Return the stored list of a run with these options; in a worker, since Arrow makes the coordinator larger."""
    [(_, found)] = work.executor.run(merge_worker.read, [(run.merges_path, merges_fingerprint(run, options))])
    return found


def stored(task: merge_worker.MergeTask, executor: Executor) -> MergeList | None:
    """Return the stored list of a task if it is long enough."""
    for _, found in executor.run(merge_worker.stored, [task] if any(existing([task.output])) else []):
        if found is not None and found.serves(task.merges):
            remove(task.so_far)
            return found
    return None


def _known(task: merge_worker.MergeTask, executor: Executor) -> int:
    """Return how many merges a killed process has left."""
    for _, known in executor.run(merge_worker.known, [task] if any(existing([task.so_far])) else []):
        return len(known) if known else 0
    return 0


def learn_together(
    tasks: Sequence[merge_worker.MergeTask], broker: Broker, options: Options, executor: Executor, listener: Listener
) -> list[MergeList]:
    """Learn and store several lists on this machine, as many at the same time as there are workers and fit in memory.

    One thread for each list loses less to waiting than all threads for one; only a rest of fewer lists shares them.
    """
    if not tasks:
        return []
    threads, single = thread_count(options), [replace(task, threads=1) for task in tasks]
    asked = min(threads, len(tasks))
    ways = executor.run(merge_worker.check, single, at_once=broker.reserve(asked=asked).count)
    at_once = min(asked, broker.everything().fitting(max(way.bytes for _, way in ways)))
    rest = len(tasks) % at_once
    found: dict[int, MergeList] = {}
    started, known = time.monotonic(), sum(_known(task, executor) for task in tasks)
    listener(StageStarted(STAGE, sum(task.merges for task in tasks), "merges", known))
    for first, last, count in ((0, len(tasks) - rest, at_once), (len(tasks) - rest, len(tasks), rest)):
        each = broker.reserve(0, asked=count).bytes if count else 0
        limited = [_share(task, threads // count, each) for task in tasks[first:last]]
        for index, learned in executor.run(
            merge_worker.learn, limited, lambda amount: listener(Advanced(STAGE, amount)), at_once=max(count, 1)
        ):
            found[first + index] = learned
            remove(limited[index].so_far)
    listener(StageEnded(STAGE, time.monotonic() - started))
    return [found[index] for index in range(len(tasks))]


def _share(task: merge_worker.MergeTask, threads: int, budget_bytes: int) -> merge_worker.MergeTask:
    return replace(task, threads=threads, grant=replace(task.grant, bytes=min(task.grant.bytes, budget_bytes)))
