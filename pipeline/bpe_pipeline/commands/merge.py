"""`merge`: open a run that was counted, with its own options by default, and learn from its counts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.commands.combine import copy_run
from bpe_pipeline.commands.first_stage import set_stage, with_stage
from bpe_pipeline.commands.learn import keep_ids, merge_and_export, stored_ids
from bpe_pipeline.counts.as_text import bounds
from bpe_pipeline.counts.count import STAGE as COUNTING
from bpe_pipeline.counts.count import combine_again, input_bytes
from bpe_pipeline.counts.counted import Counted, require_counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.merges import merge, merge_worker
from bpe_pipeline.merges.chooser import Chooser
from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.make_options import make_options, refuse_other_options
from bpe_pipeline.run.manifest import COMBINED, Manifest, Run
from bpe_pipeline.run.mixture import mixture_of
from bpe_pipeline.run.open_run import refuse_other_weights
from bpe_pipeline.run.options import MergeOptions, OutputOptions, TrainOptions, flag_of
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.run.plan import is_weighted
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.runner import Runner, opened
from bpe_pipeline.storage import Location, same_location
from bpe_pipeline.tokenizer.export import Ids, Trained, check_before_work, refuse_ordinary


def run_merge(
    location: Location,
    requested: TrainOptions,
    executor: Executor,
    listener: Listener,
    first_stage: Location | None = None,
) -> tuple[Summary, Trained]:
    """Merge and export from the counts of a run directory, or in the output from a copy of them; reads no corpus."""
    output = requested.output
    if output is not None and not same_location(output, location):
        run = manifest.require(location)
        weighed = reweighed(run, requested, executor)
        if requested.overwrite or manifest.load(output) is None:  # else the output's own options are the default
            _refuse_unfit_run(run, requested)
            options = make_options(TrainOptions, {**run.manifest.counting, **requested.explicit})
            check_before_work(with_stage(run, first_stage, options, executor)[1], lambda _: None)
        location = copy_run(run, weighed, requested.to(OutputOptions), executor, listener)
    with open_merging(location, requested, executor, listener, first_stage) as (
        runner,
        run,
        counted,
        options,
        replaced,
    ):
        return merge_and_export(runner, run, counted, options, replaced)


@contextmanager
def open_merging(
    location: Location,
    requested: TrainOptions,
    executor: Executor,
    listener: Listener,
    first_stage: Location | None = None,
) -> Iterator[tuple[Runner, Run, Counted, TrainOptions, dict[str, Ids | None]]]:
    """Open a run directory to merge in, with its own options by default; nothing is deleted before all was checked."""
    run = manifest.require(location)
    _refuse_unfit_run(run, requested)
    options, like = _with_stored_options(run, requested)
    options = options.replace(weights=None, output=location)
    stage, options = with_stage(run, first_stage, options, executor)
    broker = check_before_work(options, listener)
    with opened(options, executor, listener, broker) as (runner, directory):
        before = manifest.require(directory.location)
        counted, run = require_counted(before, executor), _weighted(before, requested, executor)
        runner.skip(COUNTING)
        for line, is_proof in bounds(before, requested.added_special_tokens, executor):
            runner.inform(line) if is_proof else runner.warn(line)
        replaced: dict[str, Ids | None] = {}
        if not options.overwrite:
            keep_ids(runner, before, options, like=like, explicit=requested.explicit)
        else:
            learning = run.changed(first_stage=stage, merging=options.merging)
            replaced = _ids_to_replace(runner, before, learning, counted, options)
        if run.counter != before.counter:
            counted, run = combine_again(runner, run), run.changed(merging=None, vocab_size=None)
        if options.overwrite:
            run = manifest.remove_results(run)
        if options.overwrite or run != before:
            manifest.save(run)
        if stage is not None:
            run = set_stage(runner, run, stage)
        with runner.logged(directory, options, run.remove_partial):
            yield runner, run, counted, options, replaced


def _with_stored_options(run: Run, requested: TrainOptions) -> tuple[TrainOptions, str]:
    """Return the options of a merge, those of the run by default, and the tokenizer that it is like.

    The special tokens of that tokenizer are the default, and are kept where others are added.
    """
    stored = run.manifest
    size = None if requested.stop_at_saving else stored.vocab_size
    like = run.tokenizer_name((requested.vocab_size[0] if "vocab_size" in requested.explicit else size) or 0)
    like = like if like in stored.special else "tokenizer"
    before: dict[str, Any] = {}
    if not requested.overwrite:
        merging = stored.merging if run.merges_path.exists() else None  # else it was killed, and binds no later one
        before = {**stored.special.get(like, {}), **(merging or {})}
    if requested.added_special_tokens:
        added = dict.fromkeys((*before.get("added_special_tokens", ()), *requested.added_special_tokens))
        requested = requested.replace(added_special_tokens=tuple(added))
    own = {"vocab_size": size, **stored.counting, **before, **requested.explicit}
    return make_options(TrainOptions, own), like


def _refuse_unfit_run(run: Run, requested: TrainOptions) -> None:
    """Refuse a run that was counted with other options, or whose merges an extension chooses that takes other
    options."""
    counting = {name: value for name, value in requested.in_scope(Scope.COUNT).items() if name in requested.explicit}
    refuse_other_options(run.directory, "counting", run.manifest.counting, counting)
    chooser: Chooser | None = run.manifest.chooser
    if chooser is not None:
        merging = requested.to(MergeOptions).explicit
        make_options(chooser.TAKES, merging, lambda name: f"{flag_of(name)}: of merges that {chooser.KIND} choose, it")


def _ids_to_replace(
    runner: Runner, run: Run, new: Run, counted: Counted, options: TrainOptions
) -> dict[str, Ids | None]:
    """Check that the merges to come will fit; return the ids of the tokenizers that they replace, as `stored_ids`."""
    learning = merge.learning_of(new)
    runner.executor.one(merge_worker.check, merge.task_of(runner, learning, counted, options))
    if (known := runner.executor.one(merge_worker.read, learning.merges)) is not None:
        refuse_ordinary(Trained(known, pattern_of(options), options))
    return {
        home.name: stored_ids(runner.executor, run, home.name, run.manifest.options_of(home.name))
        for home in run.tokenizers()
        if (home / "tokenizer.json").exists()
    }


def _weighted(run: Run, requested: TrainOptions, executor: Executor) -> Run:
    """Return the run with the requested weights, its own by default; raise if merges were learned with others."""
    new = reweighed(run, requested, executor)
    if not requested.overwrite and is_weighted(requested):
        refuse_other_weights(run, new, requested)
    return replace(run, manifest=new)


def reweighed(run: Run, requested: TrainOptions, executor: Executor) -> Manifest:
    """Return the manifest of a run with the weights, temperature or shares that are asked for; its own by default."""
    stored, source = run.manifest, run.manifest.source
    if not is_weighted(requested):
        return stored
    if source is not None and not (source.kind == COMBINED and all(text.is_run for text in stored.texts)):
        flags = " ".join(flag_of(name) for name in ("weights", "temperature", "shares") if getattr(requested, name))
        raise UsageError(f"{flags}: {run.directory} has no inputs, but counts from {source.description}")
    if source is None and stored.texts and run.counter_path.exists():
        stored = stored.with_bytes(input_bytes(run, executor))
    return stored.weighed(requested.weights, mixture_of(requested))
