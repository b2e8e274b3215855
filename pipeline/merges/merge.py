"""Merge in a worker, as far as the merge list is not stored yet."""

import os
from collections.abc import Sequence
from dataclasses import replace

from pipeline.base import machine
from pipeline.counts.count import Counted
from pipeline.executors import ONE_CORE, Need, Node
from pipeline.merges import merge_worker
from pipeline.merges.forecast import Sharing
from pipeline.merges.merge_list import MergeList
from pipeline.run import manifest, memory
from pipeline.run.directory import fingerprint
from pipeline.run.manifest import Run
from pipeline.run.open_run import cut_by
from pipeline.run.options import Options
from pipeline.run.superwords import coarse_pattern
from pipeline.run.work import Work
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
    whole = memory.budget(options.memory_limit, largest)  # memory may be shorter now than it was
    other_bytes = whole.taken_bytes + whole.worker_bytes
    budget_bytes = whole.limit_bytes - other_bytes  # below 0 if even that is too much
    if not nodes:
        budget_bytes = min(budget_bytes, machine.available_memory())
    return merge_worker.MergeTask(
        counter=counted.path,
        counter_fingerprint=counted.fingerprint,
        merges=merges_for(options),
        min_frequency=options.min_frequency,
        min_piece_count=options.min_piece_count,
        max_token_bytes=options.max_token_bytes,
        whole_characters=options.whole_characters,
        tie_break=options.tie_break,
        threads=memory.threads(options, nodes),
        output=run.merges_path,
        so_far=run.directory / manifest.MERGES_SO_FAR,
        fingerprint=merges_fingerprint(run, options),
        budget_bytes=budget_bytes,
        other_bytes=other_bytes,
        sharing=sharing(options, nodes) if run.manifest.parity is None else None,
        parity=run.manifest.parity,
    )


def sharing(options: Options, nodes: Sequence[Node]) -> Sharing | None:
    """Return how the nodes of a cluster may share the words; None if there are not several."""
    parts = min(len(nodes), options.workers or len(nodes))
    if parts < 2:
        return None
    of_part = replace(options, workers=options.workers and -(-options.workers // parts))
    budget_bytes = memory.budget(options.memory_limit, nodes).per_worker(1) - _COORDINATING_BYTES
    from_bytes = int(os.environ.get("BPE_PIPELINE_SHARE_BYTES", _SHARE_FROM_BYTES))
    return Sharing(parts, memory.threads(of_part, nodes), budget_bytes, from_bytes)


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
    for _, stored in work.executor.run(merge_worker.stored, [task] if any(existing([task.output])) else []):
        if stored is not None and stored.serves(task.merges):
            work.times[stage] = None
            remove(task.so_far)
            return stored
    work.directory.require_lock()
    before = 0
    for _, known in work.executor.run(merge_worker.known, [task] if any(existing([task.so_far])) else []):
        before = len(known) if known else 0
    before = max(before, task.first.merges if task.first else 0)
    with work.stage(stage, task.merges, "merges", before) as advance:
        need = ONE_CORE
        if work.nodes:  # the memory it needs chooses the node
            [(_, way)] = work.executor.run(merge_worker.check, [task])
            need = Need(task.threads, way.bytes + task.other_bytes)
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
