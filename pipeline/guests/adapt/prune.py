"""`prune`: a tokenizer without its least used tokens, by a run's counts; what stays is made by the same merges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Unpack

from pipeline.base.errors import UsageError, unfit
from pipeline.base.events import Listener
from pipeline.base.units import format_count
from pipeline.counts.count import Counted
from pipeline.executors import Executor
from pipeline.guests.adapt.origin import Change, changing, whole_number
from pipeline.guests.adapt.prune_worker import Pruning, protected_ids, pruned, write_tables
from pipeline.guests.adapt.prune_worker import prune as choose
from pipeline.reports.progress import for_python
from pipeline.run import manifest
from pipeline.run.keywords import AnyPath, OutputKeywords
from pipeline.run.listed_options import lists_options
from pipeline.run.make_options import make_options
from pipeline.run.manifest import Run
from pipeline.run.options import OutputOptions
from pipeline.run.patterns import cut_by
from pipeline.run.runner import Runner
from pipeline.run.workers import executor_here
from pipeline.storage import Location, Remote, named
from pipeline.tokenizer.arguments import flag
from pipeline.tokenizer.formats.changed import ids_left_out, require_listed, write_changed
from pipeline.tokenizer.formats.fields import read_text
from pipeline.tokenizer.formats.files import load_model
from pipeline.tokenizer.formats.settings_files import GENERATION_NAME
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Pruned(Pruning):
    """A pruned tokenizer, and what was removed of its base."""

    tokenizer: Tokenizer


@lists_options
def prune(
    base: AnyPath,
    run: AnyPath,
    *,
    keep: int | None = None,
    min_count: int | None = None,
    protect: AnyPath | Sequence[str | bytes] = (),
    keep_ids: bool = False,
    progress: bool = False,
    **options: Unpack[OutputKeywords],
) -> Pruned:
    """Remove a tokenizer's least used tokens, by the counts of a run; bytes and added tokens stay.

    >>> pipeline.Tokenizer.from_merges([(b"l", b"o"), (b"lo", b"w"), (b"e", b"r")]).save("base")
    >>> run = pipeline.import_counts({"low": 5, "lower": 1}, output="runs/a")
    >>> done = pipeline.prune("base", run, keep=258, output="pruned")
    >>> done.removed
    (RemovedToken(old_id=258, token=b'er', score=1, new_ids=(68, 81)),)
    >>> done.tokenizer.encode("lower"), done.id_map[257]
    ([257, 68, 81], 257)

    Args:
        base: the tokenizer, a path or a URI, as `Tokenizer.load` reads it.
        run: the run directory.
        keep: how many ids stay, added tokens included.
        min_count: instead of `keep`: remove tokens that are used less often.
        protect: tokens that stay, in the spelling of vocab.json or as text; or a file with one a line.
        keep_ids: whether each token keeps its id; otherwise ids are made contiguous, in the same order.
        progress: as of `pipeline.train`.
        **options: `output`, the new tokenizer's directory, and `overwrite`, `workers`, `memory_limit`.

    Returns:
        The tokenizer, the map of its ids, and what was removed.

    Raises:
        UsageError: there is nothing to remove, fewer tokens cannot stay, or what is protected is not a token.
        RunDirectoryError: the run is not completely counted.
        ExportRefusedError: tokenizer.json cannot hold the result.
    """
    settled = make_options(OutputOptions, options)
    kept: Location | Sequence[str | bytes]
    if isinstance(protect, str | PathLike | Remote):
        kept = named(protect, "protect")
    elif not isinstance(protect, bytes) and isinstance(protect, Sequence) and {*map(type, protect)} <= {str, bytes}:
        kept = protect
    else:
        raise unfit("protect", "a list of tokens, or a file with one a line", protect)
    with for_python(progress) as listener, executor_here(settled) as executor:
        staying = {"keep": keep, "min_count": min_count, "protect": kept, "keep_ids": keep_ids}
        return run_prune(named(base, "base"), named(run, "run"), staying, settled, executor, listener)


def run_prune(
    base: Location,
    location: Location,
    staying: Mapping[str, Any],
    options: OutputOptions,
    executor: Executor,
    listener: Listener,
) -> Pruned:
    """Choose, write the tokenizer's directory, and return what was removed.

    staying: which tokens do, `keep` of them or those used `min_count` times, and those to `protect`, listed or in a
    file with one a line; and `keep_ids`.
    """
    if options.output is None:
        raise UsageError("prune needs --output, a directory for the pruned tokenizer")
    if (staying["keep"] is None) == (staying["min_count"] is None):
        raise UsageError("prune needs either --keep or --min-count")
    model, run = load_model(base), manifest.require(location)
    require_listed(base, model)
    special = model.vocabulary.special_tokens
    limits, kept = ("keep", "min_count"), staying["protect"]
    if not isinstance(kept, Sequence):
        kept = [line for line in read_text(kept).splitlines() if line]
    chosen = {
        **{name: None if staying[name] is None else whole_number(name, staying[name], 1) for name in limits},
        "protected": sorted(protected_ids(model.vocabulary, kept)),
        "keep_ids": flag("keep_ids", staying["keep_ids"]),
    }
    change = Change("prune", base, model, run, chosen)
    with changing(change, options, executor, listener, _warn_of_other_cutting) as (runner, counted, directory):
        pruning, written = make_pruned(runner, change, counted, directory)
    if moved := [text for text, id_ in written.vocabulary.special_tokens.items() if special[text] != id_]:
        which = f"{format_count(len(moved), 'added tokens')} moved to other ids, {moved[0]!r} among them"
        more = " and generation_config.json" if GENERATION_NAME not in written.files else ""
        runner.warn(
            f"{which}: change eos_token_id, bos_token_id and pad_token_id in the model's config.json{more} by "
            "id-map.parquet"
        )
    if left_out := ids_left_out(base, {old: new for new, old in pruning.id_map.items()}):
        which = ", ".join(f"{name} without {', '.join(map(str, ids))}" for name, ids in left_out.items())
        runner.warn(f"generation_config.json does not name the ids of removed tokens any more: {which}")
    return Pruned(**vars(pruning), tokenizer=Tokenizer.from_model(written))


def _warn_of_other_cutting(runner: Runner, model: Model, run: Run) -> None:
    if run.manifest.cutting != cut_by(model.counting_pattern):
        runner.warn(
            f"{run.directory} was not cut as the tokenizer cuts: its tokens are chosen by how it encodes the pieces in "
            "there; to count as it cuts, use count --like"
        )


def make_pruned(runner: Runner, change: Change, counted: Counted, directory: Location) -> tuple[Pruning, Model]:
    """Choose what is asked for and write all files into a directory."""
    with runner.reporting("pruning", counted.facts.different_pieces, "pieces"):
        pruning = runner.executor.one(choose, change.task(runner, counted))
        runner.executor.one(write_tables, (pruning, change.model.vocabulary, directory))
    removed = {one.old_id for one in pruning.removed}
    smaller, new_of = pruned(change.model, removed, keep_ids=change.asked["keep_ids"])
    return pruning, write_changed(change.base, smaller, new_of, directory)
