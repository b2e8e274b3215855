"""Merge in a worker, as far as the merge list is not stored yet."""

from dataclasses import dataclass

from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.counts.counted import Counted
from bpe_pipeline.executors import Executor, Need
from bpe_pipeline.merges import merge_worker
from bpe_pipeline.merges.chooser import Chooser
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.merges.merge_worker import FirstStage, MergeTask
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.run.directory import MERGES_SO_FAR
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.runner import OF_SUPERWORDS, Runner, Stage
from bpe_pipeline.storage import Location, named, remove

STAGE = "merging"


@dataclass(frozen=True)
class Learning:
    """What of a run its merges are learned with: where they are stored, with their key, and who chooses them.

    first: of superwords, the merges of their first stage, with their key.
    """

    merges: tuple[Location, str]
    first: tuple[Location, str] | None = None
    chooser: Chooser | None = None


def learning_of(run: Run) -> Learning:
    """Return what the merges of a run are learned with."""
    stored, stage = run.manifest, run.manifest.first_stage
    first = None if stage is None else (named(stage.run) / run.merges_path.name, stage.key)
    return Learning((run.merges_path, stored.merge_fingerprint()), first, stored.chooser)


def task_of(runner: Runner, learning: Learning, counted: Counted, options: TrainOptions) -> MergeTask:
    """Return the task of merging a counter as the options say."""
    nodes, chooser, (output, made_of) = runner.nodes, learning.chooser, learning.merges
    largest = [max(nodes, key=lambda node: node.memory_bytes)] if nodes else []
    merges, first = merges_for(options), None
    if learning.first is not None and options.first_size is not None:
        first = FirstStage(*learning.first, min(options.first_size - len(BYTE_ORDER), merges))
    return MergeTask(
        counter=counted.path,
        counter_fingerprint=counted.fingerprint,
        merges=merges,
        rules=MergeRules.of(options) if first is None else MergeRules.of_superwords(options),
        threads=runner.threads,
        output=output,
        so_far=output.parent / MERGES_SO_FAR,
        fingerprint=made_of,
        grant=runner.broker.everything_free(largest),
        first=first,
        learner=None if chooser is None else chooser.learner(),
    )


def merges_for(options: TrainOptions) -> int:
    """Return the number of merges in the largest vocabulary asked for."""
    return max(map(options.special.merge_budget, options.vocab_size))


def learn(runner: Runner, learning: Learning, counted: Counted, options: TrainOptions) -> MergeList:
    """Return the list of all merges that are asked for, or that exist: the stored one, or a new one, stored."""
    task = task_of(runner, learning, counted, options)
    learned = stored(task, runner.executor)
    with runner.naming(OF_SUPERWORDS if task.first else ""):
        if learned is None:
            need = _need(runner, task) if runner.nodes else None  # the memory it needs chooses the node
            begun = _begun(task, runner.executor)
            [learned] = runner.run(
                Stage(STAGE, "merges", merge_worker.learn, [task], [task.merges], begun=begun, need=need)
            )
        else:
            runner.skip(STAGE)
    remove(task.so_far)
    runner.kept = f"all counts, {len(learned):,} merges"
    return learned


def _begun(task: MergeTask, executor: Executor) -> int:
    """Return how many merges count as done: those that a killed process has left, or of the first stage."""
    known = executor.one(merge_worker.known, task) if task.so_far.exists() else None
    return max(len(known or ()), task.first.merges if task.first else 0)


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
    if not task.output.exists():
        return None
    learned = executor.one(merge_worker.read, (task.output, task.fingerprint))
    return learned if learned is not None and learned.serves(task.merges) else None
