"""`extend`: new tokens for a tokenizer that exists, learned from a run's counts; its ids and merges stay.

`count --like` counts a corpus as such a tokenizer cuts it.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bpe_pipeline.base.errors import PipelineError, RunDirectoryError, UsageError
from bpe_pipeline.base.events import Listener
from bpe_pipeline.base.units import format_count
from bpe_pipeline.commands.like import require_extendable
from bpe_pipeline.commands.merge import count_again_in_part
from bpe_pipeline.counts.as_text import bounds
from bpe_pipeline.counts.coarse import count_again, refuse_without_texts
from bpe_pipeline.counts.counted import require_counted, text_counters
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.adapt.change_worker import tokens_by_merges
from bpe_pipeline.extensions.adapt.extend_worker import (
    Learned,
    NewToken,
    extended,
    learn,
    start_of,
    write_table,
)
from bpe_pipeline.extensions.adapt.options import ExtendOptions
from bpe_pipeline.extensions.adapt.origin import Change, changing, left_out_of_settings, staying_ids, whole_number
from bpe_pipeline.extensions.adapt.prune_worker import RemovedToken, write_removed
from bpe_pipeline.extensions.adapt.same_cutting import require_same_cutting
from bpe_pipeline.extensions.adapt.savings import Saving, Savings
from bpe_pipeline.extensions.adapt.scripts import Replaced, learned_again, without_scripts
from bpe_pipeline.merges.merge import STAGE
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.reports.figure_files import require_figures, write_figures
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.reports.summary import Summary
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import COARSE
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.manifest import IMPORTED, Run
from bpe_pipeline.run.options import RECORDS, TrainOptions, flag_of
from bpe_pipeline.run.patterns import coarse_pattern
from bpe_pipeline.run.runner import Advance, Runner, opened, watched
from bpe_pipeline.run.source import Source
from bpe_pipeline.run.values import argument, parse_share
from bpe_pipeline.storage import Location, location
from bpe_pipeline.storage.atomic import single_output, write_whole
from bpe_pipeline.tokenizer.added import news_of, with_added
from bpe_pipeline.tokenizer.export import limits_of
from bpe_pipeline.tokenizer.formats.byte_alphabet import vocabulary_texts
from bpe_pipeline.tokenizer.formats.changed import require_listed, write_changed
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

ENCODING = "encoding pre-tokens"
_SUPERWORDS = ("superword_pattern", "superword_words", "superword_colon")
_MOST_NEW = 64_000  # where a saving chooses


@dataclass(frozen=True)
class Extended:
    """An extended tokenizer.

    plan: its new tokens, as new-tokens.parquet has them. removed: the tokens whose ids they got first. made_again: old
    ids that merges alone did not make and now make. last_merge: how often the pair of the last merge occurred. before,
    after: the tokens of all counted pre-tokens by the base and with all new tokens; without_removed: by what stays of
    the base; savings: what fewer new ones save. special_tokens: those that were added; notes: their ids, and how often
    they were text.
    """

    tokenizer: Tokenizer
    plan: tuple[NewToken, ...]
    made_again: tuple[int, ...]
    stopped: str
    last_merge: str
    before: int
    after: int
    savings: tuple[Saving, ...]
    special_tokens: dict[str, int]
    notes: tuple[str, ...]
    removed: tuple[RemovedToken, ...] = ()
    without_removed: int = 0

    @property
    def new_ids(self) -> str:
        """The ids of the new tokens, in words."""
        freed = min(len(self.removed), len(self.plan))
        behind = [one.id for one in self.plan[freed:]]
        words = [f"{format_count(freed, 'ids')} of removed tokens"] * bool(freed)
        return ", ".join([*words, *([f"{behind[0]} to {behind[-1]}"] if behind else [])]) or "none"


@dataclass(frozen=True)
class SavingsFiles:
    """What a dry run writes if it is asked for: a page with a plot, and the plot as files in a directory."""

    page: Location | None
    figures: Location | None
    overwrite: bool

    def require(self) -> None:
        """Refuse now what cannot be written later."""
        if self.figures is not None:
            require_figures(self.figures, overwrite=self.overwrite)
        if self.page is not None:
            single_output(self.page, overwrite=self.overwrite)

    def write(self, savings: Savings) -> Savings:
        """Write the files; return the savings."""
        if self.page is not None:
            write_whole(single_output(self.page, overwrite=self.overwrite), savings.page())
        if self.figures is not None:
            write_figures(self.figures, [savings.figure()], savings.tables(), overwrite=self.overwrite)
        return savings


def result_of(extended: Extended, output: Location) -> Facts:
    """Return what the command prints of an extended tokenizer."""
    facts = {
        "tokenizer": str(output),
        "new_tokens": len(extended.plan),
        "new_ids": extended.new_ids,
        **({"removed": len(extended.removed)} if extended.removed else {}),
        "made_again": len(extended.made_again),
        "stopped": extended.stopped,
        "last_merge": extended.last_merge,
        **({"special_tokens": extended.special_tokens} if extended.notes else {}),
        "tokens_before": extended.before,
        **({"tokens_without_removed": extended.without_removed} if extended.removed else {}),
        "tokens_after": extended.after,
        "savings": extended.savings,
    }
    shown = {"special_tokens": extended.notes} if extended.notes else {}
    return Facts(facts, "extended", short=str(output), shown_as=shown)


def extended_of(done: tuple[Facts, Extended]) -> Extended:
    """Return the extended tokenizer."""
    return done[1]


def run_extend(change: Change, options: ExtendOptions, executor: Executor, listener: Listener) -> Extended:
    """Learn, write the tokenizer's directory, and return what was added."""

    def check(runner: Runner, model: Model, run: Run) -> None:
        require_same_cutting(runner, _cutting(model, change.asked), run)

    with changing(change, options, executor, listener, check) as (runner, directory):
        learned, written, removed = make_extended(runner, change, directory)
        if removed:
            gone = {one.old_id for one in removed}
            runner.warn(left_out_of_settings(change.base, staying_ids(gone, written.vocabulary)))
            runner.warn(learned_again(removed, {one.token for one in learned.new}))
        last_merge = _last_merge(runner, change.counts, written, learned)
        for limit in limits_of(written, ("hf",)):
            runner.warn(limit)
    stopped = learned.chosen or "as many as were asked for"
    if not learned.chosen and len(learned.new) < (wanted := change.asked["add"]):
        least = change.asked["min_frequency"]
        often = "at all" if least == 1 else f"{least:,} times"
        stopped = f"{wanted - len(learned.new):,} fewer than were asked for: no pair is left that occurs {often}"
        runner.warn(f"the tokenizer has {stopped}")
    tokenizer, again = Tokenizer.from_model(written), learned.made_again
    special, old = written.vocabulary.special_tokens, change.model.vocabulary.special_tokens
    marks = {text: id_ for text, id_ in special.items() if text not in old}
    notes = [*news_of(change.model, written), *(line for line, _ in bounds(change.counts, [*marks], executor))]
    how = stopped, last_merge, learned.before, learned.after, learned.savings(), marks, tuple(notes)
    return Extended(tokenizer, learned.new, again, *how, removed, learned.tokens[0])


def _of_second_count(model: Model, asked: Mapping[str, Any], run: Run) -> TrainOptions:
    """Return the options of the second count of a run: all ordinary tokens of the base are its first stage."""
    counting = {**run.manifest.counting, "superwords_from": len(model.vocabulary.tokens)}
    return make_options(TrainOptions, counting | {name: asked[name] for name in _SUPERWORDS})


def _cutting(model: Model, asked: Mapping[str, Any]) -> Model:
    """Return the model with the pattern of its superwords, if they are asked for."""
    if asked.get("superword_pattern") is None:
        return model
    options = {"superwords_from": len(model.vocabulary.tokens), "superword_pattern": asked["superword_pattern"]}
    pattern = coarse_pattern(make_options(TrainOptions, options))
    return model if pattern is None else replace(model, pattern=pattern)


def with_second_count(change: Change, options: ExtendOptions, executor: Executor, listener: Listener) -> Change:
    """Return the change by the second count of its run, after counting what is missing of it."""
    run, counting = change.counts, _of_second_count(change.model, change.asked, change.counts)
    work = {name: getattr(options, name) for name in ("workers", "memory_limit")}
    counting = replace(counting, output=run.directory.location, **work)
    with opened(counting, executor, listener) as (runner, directory), runner.logged(directory, counting, lambda: None):
        require_same_cutting(runner, change.model, run)
        count_again(runner, run, require_counted(run, executor), counting)
    return replace(change, run=manifest.require(run.coarse_location))


def run_part(change: Change, options: ExtendOptions, part: str, executor: Executor, listener: Listener) -> Summary:
    """Do a part of the second count."""
    if options.superword_pattern is None:
        raise UsageError("--part is for the second count of superwords: give --superword-pattern")
    given = {name: getattr(options, name) for name in (*_SUPERWORDS, "workers", "memory_limit")}
    given |= {"superwords_from": len(change.model.vocabulary.tokens), "part": part}
    return count_again_in_part(change.counts.directory.location, given, executor, listener)


def run_dry(change: Change, options: ExtendOptions, executor: Executor, listener: Listener) -> Savings:
    """Learn, write nothing, and return how many tokens each number of new ones saves."""
    with watched(options, executor, listener) as runner:
        require_same_cutting(runner, _cutting(change.model, change.asked), change.counts)
        learned, replaced = _learned(runner, change)
        saving = change.asked["stop_at_saving"]
        missing = runner.warn if saving is None else _refuse
        by_name = _tokens_with_each(runner, change, replaced, learned, missing)
        whole = [len(change.model.vocabulary.left)]
        before = _tokens_by_name(runner, change.counts, change.model, whole, lambda _: None)
    savings = learned.savings()
    count, why = (None, "") if saving is None else learned.enough(change.asked["add"], saving, by_name)
    where = change.base, change.counts.directory.location
    runs = {name: (before[name][0], *(one[step.new_tokens] for step in savings)) for name, one in by_name.items()}
    return Savings(*where, tuple(learned.tokens), learned.before, savings, count, why, runs)


def _refuse(reason: str) -> None:
    raise RunDirectoryError(f"--stop-at-saving chooses by the tokens of each run that was combined: {reason}")


def _tokens_with_each(
    runner: Runner, change: Change, replaced: Replaced, learned: Learned, missing: Callable[[str], None]
) -> dict[str, list[int]]:
    """Return the tokens with each number of new ones in each input, or in each run that was combined, if several."""
    old = len(replaced.model.vocabulary.left)
    ranks = {id_: rank for rank, id_ in enumerate(learned.result, old)}
    numbers = [old, *(ranks[one.id] + 1 for one in learned.new)]
    return _tokens_by_name(runner, change.counts, extended(replaced.model, learned), numbers, missing)


def _tokens_by_name(
    runner: Runner, run: Run, model: Model, numbers: Sequence[int], missing: Callable[[str], None]
) -> dict[str, list[int]]:
    """Return the tokens by these numbers of first merges in each input, or in each run that was combined, if several.

    missing: is called with why a run cannot be read.
    """
    plan, source, by_name = run.manifest.plan, run.manifest.source, dict[str, list[int]]()
    inputs = zip(plan.inputs, plan.chunks_of_inputs(), strict=True) if len(plan.inputs) > 1 else ()
    for name, chunks in inputs:
        tasks = [(*counter, model, numbers) for counter in run.chunk_counters(chunks)]
        tokens = [of_chunk for _, of_chunk in runner.executor.run(tokens_by_merges, tasks)]
        by_name |= {name: list(map(sum, zip(*tokens, strict=True)))} if tokens else {}
    for mixed in source.mixed if source else ():
        try:
            part = manifest.require(location(mixed.run))
            home = part.directory.location
            name = (home.parent if home.name == COARSE else home).name
            task = part.counter_path, mixed.counts, model, numbers
            by_name[mixed.run if name in by_name else name] = runner.executor.one(tokens_by_merges, task)
        except PipelineError as error:
            missing(f"no savings of {mixed.run}: {error}")
    return by_name


def _last_merge(runner: Runner, run: Run, model: Model, learned: Learned) -> str:
    """Say how often the pair of the last merge occurred, without weights."""
    if not learned.counts:
        return "none"
    times = format_count(learned.counts[-1], "times")
    if not run.manifest.weighted:
        return f"occurred {times}"
    merges = len(model.vocabulary.left)
    try:
        tasks = [(*counter, model, (merges - 1, merges)) for counter in text_counters(run)]
        fewer = [before - after for _, (before, after) in runner.executor.run(tokens_by_merges, tasks)]
    except PipelineError as error:
        return f"occurred {times} with the weights; without them it is unknown: {error}"
    return f"occurred {format_count(sum(fewer), 'times')}, without weights"


def change_of(base: Location, location: Location, new: Mapping[str, object], options: ExtendOptions) -> Change:
    """Return what is asked for; `UsageError` if it is not possible, before anything is written.

    new: `add`, `first_id` and `stop_at_saving`, as given, and whether it is a `dry_run` or a `part`.
    """
    if options.output is None and not new.get("dry_run") and not new.get("part"):
        raise UsageError("extend needs --output, a directory for the extended tokenizer")
    share = new["stop_at_saving"]
    if share is not None:
        share = argument(flag_of("stop_at_saving"), share, parse_share)
    if new["add"] is None and share is None and not options.replace_scripts:
        raise UsageError("extend needs --add, the number of new tokens, or --stop-at-saving, which chooses it")
    if options.superword_pattern is None:
        for name in _SUPERWORDS[1:]:
            if getattr(options, name) != RECORDS[name].default:
                raise UsageError(f"{flag_of(name)} means nothing without --superword-pattern: give both, or neither")
    model, run = load_model(base), manifest.require(location)
    asked: dict[str, Any] = {
        "add": _MOST_NEW if new["add"] is None else whole_number("add", new["add"]),
        "first_id": None if new["first_id"] is None else whole_number("first_id", new["first_id"]),
        "stop_at_saving": share,
        "special_tokens": list(options.added_special_tokens),
        "replace_scripts": list(options.replace_scripts),
        **_rules(options, run.manifest.source),
        **{name: getattr(options, name) for name in _SUPERWORDS[: 1 if options.superword_pattern is None else None]},
    }
    if options.superword_pattern is not None:
        refuse_without_texts(_of_second_count(model, asked, run), run.manifest.source)
    require_extendable(model)
    require_listed(base, model)
    replaced, _ = _prepared(model, asked)
    if replaced.removed and new["add"] is None:
        asked["add"] = len(replaced.removed)
    marks = len(replaced.model.vocabulary.special_tokens) - len(model.vocabulary.special_tokens)
    start_of(model, asked["add"] + marks, asked["first_id"], replaced.ids)
    vocabulary_texts(replaced.model.vocabulary, "tokenizer.json")
    return Change("extend", base, model, run, asked)


def _rules(options: ExtendOptions, source: Source | None) -> dict[str, Any]:
    """Return the rules of merging by name; by default a pair occurs twice in text, once in counts of another kind."""
    imported = source is not None and source.kind == IMPORTED
    scale = source.scale if source is not None and options.superword_pattern is not None else 1
    least = scale * (options.min_frequency or (1 if imported else 2))
    rules = MergeRules.of(replace(options, min_frequency=least))
    return {name: value for name, value in vars(rules).items() if hasattr(options, name)}


def _prepared(model: Model, asked: Mapping[str, Any]) -> tuple[Replaced, dict[str, Any]]:
    """Return the model before it learns: without what is replaced, with more special tokens; and what is then asked."""
    replaced, first = without_scripts(model, asked.get("replace_scripts", ())), asked["first_id"]
    if replaced.removed and first is None:
        first = model.vocabulary.max_id + 1
    marked = with_added(_cutting(replaced.model, asked), asked["special_tokens"], reserved=True, first_id=first)
    marks = len(marked.vocabulary.special_tokens) - len(model.vocabulary.special_tokens)
    after = None if first is None else first + marks
    return replace(replaced, model=marked), {**asked, "first_id": after, "free_ids": replaced.ids}


def make_extended(
    runner: Runner, change: Change, directory: Location
) -> tuple[Learned, Model, tuple[RemovedToken, ...]]:
    """Learn what is asked for and write all files into a directory; returns what was removed, too."""
    learned, replaced = _learned(runner, change)
    removed = {one.old_id for one in replaced.removed}
    if (saving := change.asked["stop_at_saving"]) is not None:
        by_name = _tokens_with_each(runner, change, replaced, learned, _refuse)
        count, why = learned.enough(change.asked["add"], saving, by_name)
        learned = replace(learned.first(count), chosen=why)
    runner.executor.one(write_table, (learned, directory))
    if removed:
        runner.executor.one(write_removed, (replaced.removed, directory))
    larger = extended(replaced.model, learned)
    kept = staying_ids(removed, larger.vocabulary) if removed else None
    recut = change.asked.get("superword_pattern") is not None
    return learned, write_changed(change.base, larger, kept, directory, recut=recut), replaced.removed


def _learned(runner: Runner, change: Change) -> tuple[Learned, Replaced]:
    """Learn as many tokens as are asked for; returns what the base is before, too."""
    replaced, asked = _prepared(change.model, change.asked)
    counted = require_counted(change.counts, runner.executor)
    task = replace(change.task(runner, counted), model=replaced.model, asked=asked)
    with _encoding_then_merging(runner, counted.facts.different_pre_tokens, asked["add"]) as advance:
        learned = runner.executor.one(learn, task, advance)
    if replaced.removed:
        whole = *task.counts, change.model, [len(change.model.vocabulary.left)]
        learned = replace(learned, before=runner.executor.one(tokens_by_merges, whole)[0])
    return learned, replaced


@contextlib.contextmanager
def _encoding_then_merging(runner: Runner, pre_tokens: int, merges: int) -> Iterator[Advance]:
    """Report two stages of one task: the pre-tokens that it has encoded, then its merges."""
    done, merging = 0, None
    with contextlib.ExitStack() as stages:
        encoding = stages.enter_context(runner.reporting(ENCODING, pre_tokens, "pre-tokens"))

        def advance(amount: int) -> None:  # below 0 for an attempt that failed
            nonlocal done, merging
            before, done = done, done + amount
            encoded = min(done, pre_tokens) - min(before, pre_tokens)
            if encoded:
                encoding(encoded)
            if done >= pre_tokens and merging is None:
                stages.close()
                merging = stages.enter_context(runner.reporting(STAGE, merges, "merges"))
            if merging is not None and amount != encoded:
                merging(amount - encoded)

        yield advance
