"""Merge in a worker, as far as the merge list is not stored yet.

Superwords are tokens that hold several words (SuperBPE; Liu et al., 2025, arXiv:2503.13423). The first stage is
ordinary merging, up to a size. The second cuts documents with a coarser pattern, makes all merges of the first in whole
coarse pre-tokens, from bytes and in order, and continues there. A runtime with the coarse pattern alone does the same
to a text, so training and encoding agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bpe_pipeline.base.errors import RunDirectoryError
from bpe_pipeline.counts.counted import Counted
from bpe_pipeline.executors import Executor, Need
from bpe_pipeline.merges import merge_worker
from bpe_pipeline.merges.chooser import Chooser
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.merges.merge_worker import FirstStage, MergeTask
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import MERGES_SO_FAR, fingerprint
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.patterns import coarse_pattern, cut_by
from bpe_pipeline.run.runner import OF_SUPERWORDS, Runner, Stage
from bpe_pipeline.storage import Location, existing, remove

STAGE = "merging"


@dataclass(frozen=True)
class Learning:
    """What of a run its merges are learned with: where lists are stored, each with its fingerprint, and who chooses.

    The chooser chooses the merges of pre-tokens; those of coarse pre-tokens are chosen by their counts.
    """

    merges: tuple[Location, str]
    first: tuple[Location, str]  # of the first stage of superwords
    chooser: Chooser | None = None
    scale: int = 1  # of coarse counts, which are scaled where runs are mixed

    @property
    def of_first(self) -> "Learning":
        """What the first stage of superwords is learned with."""
        return replace(self, merges=self.first)


def learning_of(run: Run, options: TrainOptions) -> Learning:
    """Return what the merges of a run are learned with; these options are the run's."""
    stored, coarse, first = run.manifest, coarse_pattern(options), run.coarse_location / run.merges_path.name
    made_of = stored.merge_fingerprint()
    return Learning(
        (run.merges_path, made_of if coarse is None else fingerprint(made_of, cut_by(coarse))),
        (first, stored.first_stage_fingerprint()),
        stored.chooser,
        stored.source.scale if stored.source else 1,
    )


def task_of(runner: Runner, learning: Learning, counted: Counted, options: TrainOptions) -> MergeTask:
    """Return the task of merging a counter as the options say."""
    nodes, chooser, (output, made_of) = runner.nodes, learning.chooser, learning.merges
    largest = [max(nodes, key=lambda node: node.memory_bytes)] if nodes else []
    return MergeTask(
        counter=counted.path,
        counter_fingerprint=counted.fingerprint,
        merges=merges_for(options),
        rules=MergeRules.of(options),
        threads=runner.threads,
        output=output,
        so_far=output.parent / MERGES_SO_FAR,
        fingerprint=made_of,
        grant=runner.broker.everything_free(largest),
        learner=None if chooser is None else chooser.learner(),
    )


def merges_for(options: TrainOptions) -> int:
    """Return the number of merges in the largest vocabulary asked for."""
    return max(map(options.special.merge_budget, options.vocab_size))


def learn(runner: Runner, learning: Learning, counted: Counted, options: TrainOptions) -> MergeList:
    """Return the merges, stored or new, of both stages if there are superwords.

    The counts of the first stage are of pre-tokens. What each merge joins is of coarse pre-tokens, for both stages.
    """
    if counted.coarse is None:
        return _learn_task(runner, task_of(runner, learning, counted, options))
    assert options.first_stage is not None, "it was counted again"
    stage = FirstStage(*learning.first, options.first_stage - 256)
    task = task_of(runner, learning.of_first, counted, options)
    task = replace(task, merges=min(stage.merges, task.merges))
    first = _learn_task(runner, task).first(task.merges)
    if len(first) < task.merges:
        runner.inform(
            f"no pair is left after {len(first):,} merges, before the {options.first_stage:,} tokens of "
            "--superwords-from: superwords are learned from there on"
        )
    task = replace(
        task_of(runner, replace(learning, chooser=None), counted.coarse, options),
        rules=MergeRules.of_superwords(options, learning.scale),
        first=replace(stage, merges=len(first)),
    )
    with runner.naming(OF_SUPERWORDS):
        learned = _learn_task(runner, task)
    if learning.scale == 1 and learned.bytes != first.bytes + first.left_out_bytes:
        raise RunDirectoryError(
            f"{stage.path.parent} counts {learned.bytes:,} bytes of text, {counted.path} "
            f"{first.bytes + first.left_out_bytes:,}: the corpus changed between them; start again with --overwrite"
        )
    return learned


def take_first_stage(runner: Runner, origin: Run, run: Run, options: TrainOptions) -> None:
    """Take the first stage of a run's superwords from the merges of another one with the same counts, or its own."""
    merging = manifest.merging_of(options)
    known, own = (replace(one, manifest=replace(one.manifest, merging=merging)) for one in (origin, run))
    if any(existing([origin.merges_path])):
        first = origin.merges_path, known.manifest.first_stage_fingerprint()
        runner.executor.one(merge_worker.copy, (first, learning_of(own, options).first))


def _learn_task(runner: Runner, task: MergeTask) -> MergeList:
    """Return the list of all merges that the task asks for, or that exist: the stored one, or a new one, stored."""
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
    """Return what a task needs of a node; say so if no node has the memory for all pre-tokens."""
    way = runner.executor.one(merge_worker.check, task)
    if way.passes:
        runner.inform(
            f"no node has memory for all pre-tokens: one merges with words on disk, in about {way.passes} passes; "
            f"give a larger --memory-limit, or add a larger node"
        )
    return Need(task.threads, way.bytes + task.grant.other_bytes)


def stored(task: MergeTask, executor: Executor) -> MergeList | None:
    """Return the stored list of a task if it is long enough."""
    if not any(existing([task.output])):
        return None
    learned = executor.one(merge_worker.read, (task.output, task.fingerprint))
    return learned if learned is not None and learned.serves(task.merges) else None


def learn_together(runner: Runner, tasks: Sequence[MergeTask]) -> list[MergeList]:
    """Learn and store several lists on this machine, as many at the same time as there are workers and fit in memory.

    One thread for each list loses less to waiting than all threads for one; only a rest of fewer lists shares them.
    """
    if not tasks:
        return []
    broker, threads, single = runner.broker, runner.threads, [replace(task, threads=1) for task in tasks]
    requested = min(threads, len(tasks))
    ways = runner.executor.run(merge_worker.check, single, at_once=broker.reserve(asked=requested).count)
    at_once = min(requested, broker.everything().fitting(max(way.bytes for _, way in ways)))
    rest = len(tasks) % at_once
    lists: list[MergeList] = []
    for batch, count in ((tasks[: len(tasks) - rest], at_once), (tasks[len(tasks) - rest :], rest)):
        if batch:
            grant = broker.reserve(0, asked=count)
            limited = [_limited(task, threads // count, grant.bytes) for task in batch]
            lists += runner.run(replace(stage_of(limited, runner.executor), grant=grant))
    for task in tasks:
        remove(task.so_far)
    return lists


def _limited(task: MergeTask, threads: int, budget_bytes: int) -> MergeTask:
    return replace(task, threads=threads, grant=replace(task.grant, bytes=min(task.grant.bytes, budget_bytes)))
