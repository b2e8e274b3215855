"""`prune`: a tokenizer without tokens, by a run's counts or its own merges; what stays is made by the same merges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.units import format_count
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.adapt.change import Change, changing
from bpe_pipeline.extensions.adapt.options import PruneOptions
from bpe_pipeline.extensions.adapt.prune_worker import (
    Pruning,
    protected_ids,
    pruned,
    settings_with_ids,
    write_tables,
)
from bpe_pipeline.extensions.adapt.prune_worker import prune as choose
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run import manifest
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.patterns import cut_by
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.fields import read_text
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Pruned(Pruning):
    """A pruned tokenizer, and what was removed of its base."""

    tokenizer: Tokenizer


def result_of(pruned: Pruned, output: Location) -> Facts:
    """Return what the command prints of a pruned tokenizer."""
    facts = {"tokenizer": str(output), "removed": len(pruned.removed), "tokens": pruned.tokenizer.vocab_size}
    facts |= {} if pruned.before is None else {"tokens_before": pruned.before, "tokens_after": pruned.after}
    return Facts(facts, "pruned", short=str(output))


def pruned_of(done: tuple[Facts, Pruned]) -> Pruned:
    """Return the pruned tokenizer."""
    return done[1]


def run_prune(options: PruneOptions, executor: Executor, listener: Listener) -> Pruned:
    """Choose, write the tokenizer's directory, and return what was removed."""
    if options.output is None:
        raise UsageError("prune needs --output, a directory for the pruned tokenizer")
    if (options.keep is None) == (options.min_count is None):
        raise UsageError("prune needs either --keep or --min-count")
    if options.run is None and options.min_count is not None:
        raise UsageError("--min-count is a number of uses: name the RUN that counted them, or give --keep")
    base, run = options.base, None if options.run is None else manifest.require(options.run)
    model = load_model(base)
    protect: Any = options.protect
    if not isinstance(protect, Sequence):
        protect = [line for line in read_text(protect).splitlines() if line]
    asked = {
        "keep": options.keep,
        "min_count": options.min_count,
        "protected": sorted(protected_ids(model.vocabulary, protect)),
        "keep_ids": options.keep_ids,
    }
    change = Change("prune", base, model, run, asked)
    how = change, options, executor, listener, _warn_of_other_cutting
    with changing(*how, moves_ids=not options.keep_ids) as (runner, directory):
        pruning, written = _write_pruned(runner, change, directory)
        _warn_of_moved(runner, model, written)
    return Pruned(**vars(pruning), tokenizer=Tokenizer.from_model(written))


def _warn_of_moved(runner: Runner, model: Model, written: Model) -> None:
    """Warn of added tokens with other ids, and say what a person has to change."""
    old = model.vocabulary.special_tokens
    moved = [text for text, id_ in written.vocabulary.special_tokens.items() if old[text] != id_]
    if moved:
        which = f"{format_count(len(moved), 'added tokens')} moved to other ids, {moved[0]!r} among them"
        more = " and generation_config.json" if not written.generation else ""
        runner.warn(
            f"{which}: change eos_token_id, bos_token_id and pad_token_id in the model's config.json{more} by "
            "id-map.parquet"
        )
    if dropped := [name for name in settings_with_ids(model) if name not in written.settings]:
        runner.warn(f"tokenizer_config.json has no {', '.join(dropped)} any more: add what is needed by id-map.parquet")


def _warn_of_other_cutting(runner: Runner, model: Model, run: Run) -> None:
    if run.manifest.cutting != cut_by(model.counting_pattern):
        runner.warn(
            f"{run.directory} was not split as the tokenizer splits: its tokens are chosen by how it encodes the "
            "pre-tokens in there; to count as it splits, use count --like"
        )


def _write_pruned(runner: Runner, change: Change, directory: Location) -> tuple[Pruning, Model]:
    """Choose what is asked for and write all files into a directory."""
    counted = change.counted(runner.executor)
    amount, unit = change.model.vocabulary.size, "tokens"
    if counted is not None:
        amount, unit = counted.facts.different_pre_tokens, "pre-tokens"
    with runner.reporting("pruning", amount, unit):
        pruning = runner.executor.one(choose, change.task(runner, counted))
        runner.executor.one(write_tables, (pruning, change.model.vocabulary, directory))
    removed = {one.old_id for one in pruning.removed}
    smaller, _ = pruned(change.model, removed, keep_ids=change.asked["keep_ids"])
    return pruning, change.write(smaller, directory)
