"""The merge stage as the coordinator sees it: how much room there is, where it runs, and what is there already."""

import time
from collections.abc import Sequence
from dataclasses import replace

from pipeline.base import machine
from pipeline.base.events import Advanced, Listener, StageEnded, StageStarted
from pipeline.counts.count import Counted
from pipeline.executors import ONE_CORE, Executor, Need, Node
from pipeline.merges import merge_worker
from pipeline.merges.merge_list import MergeList
from pipeline.run import directory, memory, plan
from pipeline.run.ids import merge_budget, with_pad_token
from pipeline.run.manifest import Run
from pipeline.run.options import Options
from pipeline.storage import existing

STAGE = "merging"


def _task(run: Run, counted: Counted, merges: int, options: Options, nodes: Sequence[Node]) -> merge_worker.MergeTask:
    largest = [max(nodes, key=lambda node: node.memory_bytes)] if nodes else []
    whole = memory.budget(options.memory_limit, largest)  # memory may be shorter now than it was
    beside = whole.taken_bytes + whole.worker_bytes
    room = whole.limit_bytes - beside  # below 0 where even that is too much
    if not nodes:
        room = min(room, machine.available_memory())
    return merge_worker.MergeTask(
        counter=counted.path,
        counter_fingerprint=counted.fingerprint,
        merges=merges,
        min_frequency=options.min_frequency,
        min_piece_count=options.min_piece_count,
        max_token_bytes=options.max_token_bytes,
        tie_break=options.tie_break,
        threads=plan.threads(options, nodes),
        output=run.merges_path,
        fingerprint=run.manifest.merge_fingerprint(),
        room_bytes=room,
        beside_bytes=beside,
    )


def require_room(run: Run, counted: Counted, options: Options, executor: Executor) -> None:
    """Raise `TrainingError` where merging by these options cannot fit: before what was learned by others is removed."""
    asked = replace(run, manifest=replace(run.manifest, merging=options.of_stage("merge")))
    task = _task(asked, counted, merges_for(options), options, executor.nodes())
    list(executor.run(merge_worker.check, [task]))


def merges_for(options: Options) -> int:
    """Merges that the largest vocabulary asked for has room for."""
    special_tokens = with_pad_token(options.special_tokens, options.pad_token)
    return max(merge_budget(size, special_tokens) for size in options.vocab_size)


def learn(
    run: Run,
    counted: Counted,
    options: Options,
    executor: Executor,
    listener: Listener,
) -> tuple[MergeList, float | None]:
    """A list of as many merges as are asked for, or all there are: that in the run directory, or a new one put there.

    Beside it the seconds that learning took, None where it was there.
    """
    merges = merges_for(options)
    nodes = executor.nodes()
    task = _task(run, counted, merges, options, nodes)
    for _, stored in executor.run(merge_worker.stored, [task] if any(existing([task.output])) else []):
        if stored is not None and stored.serves(merges):
            return stored, None
    directory.require_ours(run.directory)
    started = time.monotonic()
    listener(StageStarted(STAGE, merges, "merges"))
    need = ONE_CORE
    if nodes:  # it is told which of them by what it will take
        [(_, needed)] = executor.run(merge_worker.check, [task])
        need = Need(task.threads, needed + task.beside_bytes)
    [(_, learned)] = executor.run(
        merge_worker.learn, [task], lambda amount: listener(Advanced(STAGE, amount)), need=need
    )
    elapsed_s = time.monotonic() - started
    listener(StageEnded(STAGE, elapsed_s))
    return learned, elapsed_s
