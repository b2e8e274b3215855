"""What was counted becomes a merge list, and a tokenizer of every size asked for, with its report."""

import functools
import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

from bpe_pipeline.base.errors import PipelineError, RunDirectoryError
from bpe_pipeline.base.units import format_bytes
from bpe_pipeline.commands import report
from bpe_pipeline.counts.counted import Counted
from bpe_pipeline.executors import Executor
from bpe_pipeline.merges import forecast, merge, merge_worker
from bpe_pipeline.merges.merge_list import MergeList, size_that_repays
from bpe_pipeline.reports.numbers import Numbers
from bpe_pipeline.reports.summary import OtherSize, Summary
from bpe_pipeline.reports.verdict import rewritten
from bpe_pipeline.run import manifest
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import TrainOptions, flag_of, without_defaults
from bpe_pipeline.run.patterns import pattern_of
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.export import Exported, Ids, Trained, export_size, limits_of, refuse_ordinary
from bpe_pipeline.tokenizer.formats.export_formats import FILE_NAMES
from bpe_pipeline.tokenizer.formats.fields import CARD
from bpe_pipeline.tokenizer.formats.settings_files import GENERATION_NAME, chat_template_of


def merge_and_export(
    runner: Runner,
    run: Run,
    counted: Counted,
    options: TrainOptions,
    replaced: Mapping[str, Ids | None] = MappingProxyType({}),
) -> tuple[Summary, Trained]:
    """Learn one merge list, choose a size if a saving was asked for, and write a tokenizer of every size.

    replaced: the ids of tokenizers that were there before; None: unknown.
    """
    run = manifest.store_merging(run, options)
    run.directory.require_lock()
    learning = merge.learning_of(run)
    learned = merge.learn(runner, learning, counted, options)
    options = _with_chosen_size(runner, learned, options)
    trained = Trained(learned, pattern_of(options), options)
    exporting_bytes = _check_memory(runner, learned.first(merge.merges_for(options)), max(options.vocab_size))
    run, exported, numbers = _export(runner, run, trained, exporting_bytes)
    _warn_of_limits(runner, trained, exported)
    first, *others = exported
    shown, added = report.names_of(runner, run, numbers)
    sections = report.sections_of(runner.executor, run, trained, runner.listener)
    for advice in itertools.chain.from_iterable(section.advice for section in sections):
        runner.warn(str(advice))
    if numbers is not None and options.normalize == "nfc" and (changed := rewritten(numbers)):
        remedy = "decoding returns normalized text; with --normalize none text stays as it is"
        runner.warn(f"in a sample of the corpus {changed}: {remedy}")
    summary = report.write_summary(
        runner,
        run,
        counted,
        options,
        numbers,
        report=shown,
        vocabulary=first.facts,
        tokenizer_directory=first.directory,
        written=(*first.written, *added),
        refused=first.refused,
        sections=sections,
        changed_ids=_changed_ids(trained, exported, replaced),
        removed=tuple(name for name in replaced if name not in {tokenizer.directory.name for tokenizer in exported}),
        other_sizes=tuple(OtherSize(other.facts, other.directory, other.written) for other in others),
    )
    cards = [card for name in added if not report.is_edited(card := first.directory / name)]
    files = [tokenizer.directory / name for tokenizer in exported for name in tokenizer.written]
    manifest.store_written(run, [*files, *cards])
    return summary, trained


def _with_chosen_size(runner: Runner, learned: MergeList, options: TrainOptions) -> TrainOptions:
    """Return the options with the size that the merges recommend, if `--stop-at-saving` asks for it."""
    if options.stop_at_saving is None:
        return options
    size, why = size_that_repays(learned, options.special, options.vocab_size[0], options.stop_at_saving)
    runner.inform(why)
    return options.replace(vocab_size=(size,), stop_at_saving=None)


def _export(
    runner: Runner, run: Run, trained: Trained, exporting_bytes: int
) -> tuple[Run, list[Exported], Numbers | None]:
    """Write the tokenizer of every size; a worker computes the report's numbers meanwhile if the budget allows it."""
    compute = functools.partial(report.after_training, runner, run, trained)
    with ThreadPoolExecutor(1, report.STAGE) as pool:  # a worker has nothing to do while we export
        with runner.timed("exporting"):
            fits = report.fits_next_to(exporting_bytes, runner, trained.learned)
            computing = pool.submit(compute) if fits else None
            refuse_ordinary(trained)
            run = manifest.store_tokenizers(run, trained.options, FILE_NAMES, GENERATION_NAME, CARD)
            sizes = trained.options.vocab_size
            exported = [export_size(run.tokenizer_directory(size), trained, size) for size in sizes]
        with runner.timed(report.STAGE):
            if computing is None:
                return run, exported, compute()
            report.prepare_page(runner.broker)
            return run, exported, computing.result()


def _warn_of_limits(runner: Runner, trained: Trained, exported: Sequence[Exported]) -> None:
    """Warn of vocabularies that are smaller than asked for, and of texts on which other runtimes differ or fail."""
    options = trained.options
    for size, tokenizer in zip(options.vocab_size, exported, strict=True):
        if tokenizer.facts.merges < options.special.merge_budget(size):
            runner.warn(f"the vocabulary is smaller than asked for: {tokenizer.facts.stopped}")
    if options.first_size is not None and options.export:
        for limit in limits_of(trained.model(options.vocab_size[0]), options.export):
            runner.warn(limit)


def _changed_ids(trained: Trained, exported: Sequence[Exported], replaced: Mapping[str, Ids | None]) -> dict[str, str]:
    """Describe the ids that changed, by the directory of a tokenizer that was replaced."""
    return {
        tokenizer.directory.name: changes
        for size, tokenizer in zip(trained.options.vocab_size, exported, strict=True)
        if (before := replaced.get(tokenizer.directory.name)) is not None
        and (changes := before.changes(Ids.of(trained.vocabulary(size))))
    }


def _check_memory(runner: Runner, learned: MergeList, largest: int) -> int:
    """Return the bytes that exporting takes at most; `UsageError` if too much: tokens may be as long as pre-tokens."""
    token_bytes = learned.token_bytes
    needed = forecast.exporting_bytes(largest, token_bytes)
    runner.broker.reserve(
        needed,
        what=f"exporting {largest:,} tokens that hold {format_bytes(token_bytes)}, with the merges kept,",
        remedy=", a smaller --vocab-size, or merge again with --max-token-bytes and --overwrite",
    )
    return needed


def keep_ids(
    runner: Runner,
    run: Run,
    options: TrainOptions,
    *,
    like: str | None = None,
    explicit: Container[str] = (),
) -> None:
    """Refuse special tokens that change ids of a tokenizer that exists; report what else changes or is as in `like`."""
    requested = options.in_scope(Scope.SPECIAL)
    is_first = run.manifest.vocab_size is None  # the run has no tokenizer yet, or its corpus grew
    for size in () if options.stop_at_saving else options.vocab_size:  # else the merges choose it
        name = "tokenizer" if is_first else run.tokenizer_name(size)
        is_first = False
        if name not in run.manifest.special:
            inherited = {} if like is None else run.manifest.options_of(like).in_scope(Scope.SPECIAL)
            inherited = {one: value for one, value in without_defaults(inherited).items() if one not in explicit}
            if inherited:
                runner.inform(f"{run.directory / name} is as {like}: {_flags(inherited, inherited)}")
            continue
        if options.chat_template is None and _has_chat_template(run.directory / name):
            runner.warn(f"{run.directory / name} is made again without its chat template: --chat-template keeps it")
        before = run.manifest.options_of(name).in_scope(Scope.SPECIAL)
        if not (changed := [option for option, value in before.items() if value != requested[option]]):
            continue
        how = f"with {_flags(requested, changed)} in place of {_flags(before, changed)}"
        ids = stored_ids(runner.executor, run, name, run.manifest.options_of(name))
        new = stored_ids(runner.executor, run, name, options.replace(vocab_size=(size,)))
        if ids and new and (moved := ids.changes(new)):
            raise RunDirectoryError(
                f"{run.directory / name} exists, and {how}, its ids would change: {moved}; `export --output` adds "
                "tokens behind the others, `merge --overwrite` replaces all tokenizers of the run and keeps its counts"
            )
        runner.warn(f"{run.directory / name} is made again {how}" + (": no id changes" if ids else ""))


def _has_chat_template(home: Location) -> bool:
    try:
        return chat_template_of(home) is not None
    except (PipelineError, OSError):  # its configuration is damaged, and is written again
        return False


def _flags(options: Mapping[str, Any], names: Iterable[str]) -> str:
    """Spell options as on the command line, a list as a repeated flag."""
    lists = {name: options[name] if isinstance(options[name], list) else [options[name]] for name in names}
    flags = ((flag_of(name), value) for name, values in lists.items() for value in values or [None])
    return " ".join(f"{flag} {'none' if value is None else repr(value)}" for flag, value in flags)


def stored_ids(executor: Executor, run: Run, tokenizer: str, options: TrainOptions) -> Ids | None:
    """Return the ids of a tokenizer of the run with these options; None if it or its merge list is missing."""
    if run.manifest.merging is None or not (run.directory / tokenizer / "tokenizer.json").exists():
        return None
    if (learned := executor.one(merge_worker.read, merge.learning_of(run).merges)) is None:
        return None
    return Ids.of(Trained(learned, pattern_of(options), options).vocabulary(options.vocab_size[0]))
