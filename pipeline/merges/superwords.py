"""Learn superwords: tokens that hold several words (SuperBPE; Liu et al., 2025, arXiv:2503.13423).

The first stage is ordinary merging, up to a size. The second cuts documents with a coarser pattern, makes all merges of
the first in whole coarse pieces, from bytes and in order, and continues there. A runtime with the coarse pattern alone
does the same to a text, so training and encoding agree.
"""

from dataclasses import replace

from pipeline.base.errors import RunDirectoryError
from pipeline.counts.coarse import OF_SUPERWORDS
from pipeline.counts.count import Counted
from pipeline.merges import merge
from pipeline.merges.merge_list import MergeList
from pipeline.merges.merge_worker import FirstStage
from pipeline.merges.rules import MergeRules
from pipeline.run.directory import MERGES_SO_FAR
from pipeline.run.manifest import Run
from pipeline.run.options import TrainOptions
from pipeline.run.runner import Runner


def learn(runner: Runner, run: Run, counted: Counted, options: TrainOptions) -> MergeList:
    """Return the merges of both stages, stored or new.

    The counts of the first stage are of pieces. What each merge joins is of coarse pieces, for both stages.
    """
    first_stage, coarse = options.first_stage, counted.coarse
    assert first_stage is not None, "the options ask for superwords"
    assert coarse is not None, "and it was counted again"
    whole, stage = merge.task_of(runner, run, counted, options), first_stage_of(run, first_stage)
    task = replace(
        whole,
        merges=min(stage.merges, whole.merges),
        output=stage.path,
        so_far=run.coarse_location / MERGES_SO_FAR,
        fingerprint=stage.fingerprint,
    )
    first = merge.learn_task(runner, task).first(task.merges)
    if len(first) < task.merges:
        runner.inform(
            f"no pair is left after {len(first):,} merges, before the {first_stage:,} tokens of --superwords-from: "
            "superwords are learned from there on"
        )
    mixed = run.manifest.source
    task = replace(
        merge.task_of(runner, run, coarse, options),
        rules=MergeRules.of_superwords(options, mixed),
        sharing=None,
        first=replace(stage, merges=len(first)),
    )
    with runner.naming(OF_SUPERWORDS):
        learned = merge.learn_task(runner, task)
    if (mixed is None or mixed.scale == 1) and learned.bytes != first.bytes + first.left_out_bytes:
        raise RunDirectoryError(
            f"{run.coarse_location} counts {learned.bytes:,} bytes of text, {run.counter_path} "
            f"{first.bytes + first.left_out_bytes:,}: the corpus changed between them; start again with --overwrite"
        )
    return learned


def first_stage_of(run: Run, size: int) -> FirstStage:
    """Return where the first stage of a run is stored, and its merges up to a size."""
    path = run.coarse_location / run.merges_path.name
    return FirstStage(path, run.manifest.first_stage_fingerprint(), size - 256)
