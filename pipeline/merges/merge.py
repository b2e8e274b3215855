"""Merge in a worker, as far as the merge list is not stored yet."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.counts.count import Counted
from pipeline.executors import Executor, Need
from pipeline.merges import merge_worker
from pipeline.merges.forecast import Sharing
from pipeline.merges.merge_list import MergeList
from pipeline.merges.merge_worker import MergeTask
from pipeline.merges.rules import MergeRules
from pipeline.run.directory import MERGES_SO_FAR, fingerprint
from pipeline.run.manifest import Run
from pipeline.run.options import TrainOptions
from pipeline.run.patterns import coarse_pattern, cut_by
from pipeline.run.runner import Runner, Stage
from pipeline.run.workers import thread_count
from pipeline.storage import existing, remove

STAGE = "merging"
_SHARE_FROM_BYTES = 1 << 30  # of pieces: one node takes a minute
_COORDINATING_BYTES = 512 << 20  # of the task that asks the parts: sums and counts of pairs


def merges_fingerprint(run: Run, options: TrainOptions) -> str:
    """Return what a run's merge list depends on, its length aside; these options are the run's."""
    found, coarse = run.manifest.merge_fingerprint(), coarse_pattern(options)
    return found if coarse is None else fingerprint(found, cut_by(coarse))


def task_of(runner: Runner, run: Run, counted: Counted, options: TrainOptions) -> MergeTask:
    """Return the task of merging a counter as the options say."""
    nodes, chooser = runner.nodes, run.manifest.chooser
    largest = [max(nodes, key=lambda node: node.memory_bytes)] if nodes else []
    return MergeTask(
        counter=counted.path,
        counter_fingerprint=counted.fingerprint,
        merges=merges_for(options),
        rules=MergeRules.of(options),
        threads=runner.threads,
        output=run.merges_path,
        so_far=run.directory / MERGES_SO_FAR,
        fingerprint=merges_fingerprint(run, options),
        grant=runner.broker.everything_free(largest),
        sharing=sharing(runner) if chooser is None else None,
        learner=chooser and chooser.learner(),
    )


def sharing(runner: Runner) -> Sharing | None:
    """Return how the nodes of a cluster may share the words; None if there are not several."""
    nodes, workers = runner.nodes, runner.workers
    parts = min(len(nodes), workers or len(nodes))
    if parts < 2:
        return None
    budget_bytes = runner.broker.everything(nodes).bytes - _COORDINATING_BYTES
    threads = thread_count(workers and -(-workers // parts), nodes)
    return Sharing(parts, threads, budget_bytes, _SHARE_FROM_BYTES)


def require_memory(runner: Runner, run: Run, counted: Counted, options: TrainOptions) -> None:
    """Raise `UsageError` if merging by these options cannot fit: before the results of others are deleted."""
    asked = replace(run, manifest=replace(run.manifest, merging=options.of_stage("merge")))
    runner.executor.one(merge_worker.check, task_of(runner, asked, counted, options))


def merges_for(options: TrainOptions) -> int:
    """Return the number of merges in the largest vocabulary asked for."""
    return max(map(options.special.merge_budget, options.vocab_size))


def learn(runner: Runner, run: Run, counted: Counted, options: TrainOptions) -> MergeList:
    """Return a list of as many merges as are asked for, or all there are: the stored one, or a new one, stored."""
    return learn_task(runner, task_of(runner, run, counted, options))


def learn_task(runner: Runner, task: MergeTask) -> MergeList:
    """Return the list of a task: the stored one, or a new one, stored."""
    stage = stage_of([task], runner.executor)
    if runner.nodes and stored(task, runner.executor) is None:  # the memory it needs chooses the node
        stage = replace(stage, need=_need(runner, task))
    [learned] = runner.run(stage)
    remove(task.so_far)
    runner.kept = f"all counts, {len(learned):,} merges"
    return learned


def stage_of(tasks: Sequence[MergeTask], executor: Executor) -> Stage[MergeTask, MergeList]:
    """Return the stage of merging; merges that a killed process has left count as done."""

    def begun(tasks: Sequence[MergeTask]) -> int:
        there = [task for task, found in zip(tasks, existing([task.so_far for task in tasks]), strict=True) if found]
        left = sum(len(known) for _, known in executor.run(merge_worker.known, there) if known)
        return max(left, sum(task.first.merges for task in tasks if task.first))

    return Stage(
        STAGE,
        "merges",
        merge_worker.learn,
        tasks,
        weights=[task.merges for task in tasks],
        stored=lambda tasks: [stored(task, executor) for task in tasks],
        begun=begun,
    )


def _need(runner: Runner, task: MergeTask) -> Need:
    """Return what a task needs of a node."""
    way = runner.executor.one(merge_worker.check, task)
    if way.passes and task.sharing:
        runner.inform(
            f"the memory of {task.sharing.parts} nodes is too small for all pieces: one of them merges with words on "
            f"disk, in about {way.passes} passes, {way.times_longer:.1f} times as long as in memory; add nodes, or "
            "give a larger --memory-limit"
        )
    return (
        Need(memory_bytes=_COORDINATING_BYTES)
        if way.parts > 1
        else Need(task.threads, way.bytes + task.grant.other_bytes)
    )


def read(executor: Executor, run: Run, options: TrainOptions) -> MergeList | None:
    """Return the stored list of a run with these options; in a worker, since Arrow makes the coordinator larger."""
    return executor.one(merge_worker.read, (run.merges_path, merges_fingerprint(run, options)))


def stored(task: MergeTask, executor: Executor) -> MergeList | None:
    """Return the stored list of a task if it is long enough."""
    found = executor.one(merge_worker.read, (task.output, task.fingerprint)) if any(existing([task.output])) else None
    return found if found is not None and found.serves(task.merges) else None


def learn_together(runner: Runner, tasks: Sequence[MergeTask]) -> list[MergeList]:
    """Learn and store several lists on this machine, as many at the same time as there are workers and fit in memory.

    One thread for each list loses less to waiting than all threads for one; only a rest of fewer lists shares them.
    """
    if not tasks:
        return []
    broker, threads, single = runner.broker, runner.threads, [replace(task, threads=1) for task in tasks]
    asked = min(threads, len(tasks))
    ways = runner.executor.run(merge_worker.check, single, at_once=broker.reserve(asked=asked).count)
    at_once = min(asked, broker.everything().fitting(max(way.bytes for _, way in ways)))
    rest = len(tasks) % at_once
    found: list[MergeList] = []
    for some, count in ((tasks[: len(tasks) - rest], at_once), (tasks[len(tasks) - rest :], rest)):
        if some:
            grant = broker.reserve(0, asked=count)
            limited = [_share(task, threads // count, grant.bytes) for task in some]
            found += runner.run(replace(stage_of(limited, runner.executor), grant=grant))
    for task in tasks:
        remove(task.so_far)
    return found


def _share(task: MergeTask, threads: int, budget_bytes: int) -> MergeTask:
    return replace(task, threads=threads, grant=replace(task.grant, bytes=min(task.grant.bytes, budget_bytes)))
