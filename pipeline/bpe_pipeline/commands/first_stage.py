"""Superwords: a run of a coarser pattern, whose merges continue those of another run of the same text, the first stage.

Superwords are tokens that hold several words (SuperBPE; Liu et al., 2025, arXiv:2503.13423). The first stage is
ordinary merging, up to a size. The second cuts documents with a coarser pattern, makes all merges of the first in whole
coarse pre-tokens, from bytes and in order, and continues there. A runtime with the coarse pattern alone does the same
to a text, so training and encoding agree.
"""

from pathlib import Path

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.base.printable import BYTE_ORDER
from bpe_pipeline.counts.counted import require_counted
from bpe_pipeline.counts.split_worker import SplitTask, pre_tokens_cut
from bpe_pipeline.executors import Executor
from bpe_pipeline.merges import merge_worker
from bpe_pipeline.merges.merge_list import MergeList
from bpe_pipeline.pattern.presets import superword_presets
from bpe_pipeline.run import manifest
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import RECORDS, TrainOptions
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.run.texts import FirstStage
from bpe_pipeline.storage import Location, absolute, named

_ENDING = "-first-stage"
_SUPERWORD_OPTIONS = ("superwords_from", "superword_pattern", "superword_words", "superword_colon")


def location_for(output: Location) -> Location:
    """Return where `train` makes the run of the first stage: next to its output."""
    home = output.absolute() if isinstance(output, Path) and not output.name else output
    return home.with_name(home.name + _ENDING)


def options_of_first(options: TrainOptions, output: Location) -> TrainOptions:
    """Return the options of the first stage of superwords in this run, which gets no tokenizer."""
    plain = {name: RECORDS[name].default for name in (*_SUPERWORD_OPTIONS, "reserve_tokens", "round_vocab_to")}
    first = options.replace(**plain, output=output)
    size = (options.first_size or 0) + 2 * len(BYTE_ORDER)
    special = size - len(BYTE_ORDER) - first.special.merge_budget(size)
    return first.replace(vocab_size=((options.first_size or 0) + special,))


def options_of_second(options: TrainOptions) -> TrainOptions:
    """Return the options of the second stage of superwords: rare pre-tokens are left out of the first alone."""
    preset = superword_presets().get(options.superword_pattern)
    pattern = preset.expression if preset else options.superword_pattern
    return options.replace(pattern=pattern, superwords_from=options.first_size, min_pre_token_count=1)


def stage_in(first: Run, executor: Executor) -> tuple[FirstStage, MergeList]:
    """Return the merges of a run as a first stage."""
    key = "" if first.manifest.merging is None else first.manifest.merge_fingerprint()
    learned = executor.one(merge_worker.read, (first.merges_path, key))
    if learned is None:
        raise UsageError(f"--first-stage {first.directory} has no merges: `bpe-pipeline merge {first.directory}` first")
    return FirstStage(absolute(first.directory.location), key), learned


def with_stage(
    run: Run, location: Location | None, options: TrainOptions, executor: Executor
) -> tuple[FirstStage | None, TrainOptions]:
    """Return the first stage of a run, the one that is named or the one that it has; the options with its size."""
    before = run.manifest.first_stage
    if location is None and before is None:
        if options.superwords_from is not None:
            raise UsageError(
                "--superwords-from needs --first-stage: count the text again with --pattern superwords, and name this "
                f"run: merge SECOND --first-stage {run.directory}"
            )
        return None, options
    first = manifest.require(location or named(before.run if before else ""))
    stage, learned = stage_in(first, executor)
    size = len(BYTE_ORDER) + len(learned)
    if before not in (None, stage) and not options.overwrite and run.merges_path.exists():
        raise RunDirectoryError(
            f"{run.directory} holds another run: its merging was done with other merges of --first-stage {before.run}; "
            "choose another --output, or start again with --overwrite"
        )
    taken = options.first_size or size
    if not learned.serves(taken - len(BYTE_ORDER)):
        raise UsageError(f"--superwords-from {taken:,}: {first.directory} has {size:,} tokens; give at most {size:,}")
    require_same_text(first, run, executor)
    return stage, options.replace(superwords_from=taken)


def set_stage(runner: Runner, run: Run, stage: FirstStage) -> Run:
    """Store the first stage of a run, and warn if its pattern does not fit."""
    if run.manifest.first_stage == stage:
        return run
    _warn_of_misfit(runner, manifest.require(named(stage.run)), run)
    run = run.changed(first_stage=stage)
    manifest.save(run)
    return run


def require_same_text(first: Run, second: Run, executor: Executor) -> None:
    """Raise `UsageError` if two runs, of other pre-tokens, did not count the same bytes and documents."""
    one, other = (require_counted(run, executor).statistics for run in (first, second))
    differing = [name for name, value in first.manifest.counting.items() if second.manifest.counting[name] != value]
    why = next((f"--{name.replace('_', '-')} differs" for name in differing if name != "pattern"), "")
    if not why and (one.bytes, one.documents) != (other.bytes, other.documents):
        why = f"{one.bytes:,} bytes in {one.documents:,} documents are not {other.bytes:,} in {other.documents:,}"
    if not why and not (first.manifest.weighted or second.manifest.weighted):
        why = "" if one.counted_bytes == other.counted_bytes else "their pre-tokens are not of as many bytes"
    elif not why and [text.weight for text in first.manifest.texts] != [text.weight for text in second.manifest.texts]:
        why = "their weights differ"
    if why:
        raise UsageError(f"{first.directory} and {second.directory} have not counted the same text: {why}")


def _warn_of_misfit(runner: Runner, first: Run, second: Run) -> None:
    """Warn if the coarser pattern cuts inside pre-tokens of the first stage: some of its tokens would never be used."""
    pattern = pattern_of(make_options(TrainOptions, second.manifest.counting))
    if (
        first.manifest.counting["pattern"] == "superbpe"
        and pattern.expression == superword_presets()["superbpe"].expression
    ):
        return
    share, example = runner.executor.one(pre_tokens_cut, SplitTask(*first.counter, pattern))
    if share:
        runner.warn(
            f"the pattern of {second.directory} splits pre-tokens of {first.directory} apart, {share:.2%} of the "
            f"different ones, such as {example[:40]!r}: tokens learned from them are never used where it splits; "
            "--pattern superbpe fits, or a --superword-pattern of your own"
        )
