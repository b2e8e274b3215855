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
from bpe_pipeline.counts.as_text import bounds
from bpe_pipeline.counts.counted import require_counted, text_counters
from bpe_pipeline.executors import Executor
from bpe_pipeline.extensions.adapt.change import Change, changing
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
from bpe_pipeline.extensions.adapt.same_cutting import require_same_cutting
from bpe_pipeline.extensions.adapt.savings import Saving, Savings
from bpe_pipeline.merges.merge import STAGE
from bpe_pipeline.merges.rules import MergeRules
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run import manifest
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.runner import Advance, Runner, watched
from bpe_pipeline.run.texts import Text
from bpe_pipeline.storage import Location, location
from bpe_pipeline.tokenizer.added import news_of, reserved_in, with_added
from bpe_pipeline.tokenizer.export import limits_of
from bpe_pipeline.tokenizer.formats.byte_alphabet import vocabulary_texts
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

ENCODING = "encoding pre-tokens"
_MOST_NEW = 64_000  # where a saving chooses


@dataclass(frozen=True)
class Extended:
    """An extended tokenizer.

    plan: its new tokens, as new-tokens.parquet has them. made_again: old ids that merges alone did not make and now
    make. last_merge: how often the pair of the last merge occurred. before, after: the tokens of all counted pre-tokens
    by the base and with all new tokens; savings: what fewer new ones save. special_tokens: those that were added;
    notes: their ids, and how often they were text.
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

    @property
    def new_ids(self) -> str:
        """The ids of the new tokens, in words."""
        return f"{self.plan[0].id} to {self.plan[-1].id}" if self.plan else "none"


def result_of(extended: Extended, output: Location) -> Facts:
    """Return what the command prints of an extended tokenizer."""
    facts = {
        "tokenizer": str(output),
        "new_tokens": len(extended.plan),
        "new_ids": extended.new_ids,
        "made_again": len(extended.made_again),
        "stopped": extended.stopped,
        "last_merge": extended.last_merge,
        **({"special_tokens": extended.special_tokens} if extended.notes else {}),
        "tokens_before": extended.before,
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

    with changing(change, options, executor, listener, require_same_cutting) as (runner, directory):
        learned, written = _write_extended(runner, change, directory)
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
    how = stopped, last_merge, learned.tokens[0], learned.after, learned.savings(), marks, tuple(notes)
    return Extended(tokenizer, learned.new, again, *how)


def run_dry(change: Change, options: ExtendOptions, executor: Executor, listener: Listener) -> Savings:
    """Learn, write nothing, and return how many tokens each number of new ones saves."""
    with watched(options, executor, listener) as runner:
        require_same_cutting(runner, change.model, change.counts)
        learned, model = _learned(runner, change)
        saving = change.asked["stop_at_saving"]
        by_name = _tokens_with_each(runner, change, model, learned, runner.warn if saving is None else _refuse)
    savings = learned.savings()
    count, why = (None, "") if saving is None else learned.enough(change.asked["add"], saving, by_name)
    runs = {name: (tokens[0], *(tokens[step.new_tokens] for step in savings)) for name, tokens in by_name.items()}
    return Savings(change.base, change.counts.directory.location, learned.tokens[0], savings, count, why, runs)


def _refuse(reason: str) -> None:
    raise RunDirectoryError(f"--stop-at-saving chooses by the tokens of each run that was combined: {reason}")


def _tokens_with_each(
    runner: Runner, change: Change, base: Model, learned: Learned, missing: Callable[[str], None]
) -> dict[str, list[int]]:
    """Return the tokens with each number of new ones in each input, or in each run that was combined, if several.

    missing: is called with why a run cannot be read.
    """
    old, model, by_name = len(base.vocabulary.left), extended(base, learned), dict[str, list[int]]()
    ranks = {id_: rank for rank, id_ in enumerate(learned.result, old)}
    numbers = [old, *(ranks[one.id] + 1 for one in learned.new)]
    run = change.counts
    texts = run.manifest.texts
    of_inputs = run.manifest.source is None and len(texts) > 1
    inputs = zip(texts, run.manifest.plan.chunks_of_inputs(len(texts)), strict=True) if of_inputs else ()
    for text, chunks in inputs:
        tasks = [(*counter, model, numbers) for counter in run.chunk_counters(chunks)]
        tokens = [of_chunk for _, of_chunk in runner.executor.run(tokens_by_merges, tasks)]
        by_name |= {text.name: list(map(sum, zip(*tokens, strict=True)))} if tokens else {}
    for mixed in texts if run.manifest.source else ():
        try:
            part = manifest.require(location(mixed.name))
            name = part.directory.location.name
            task = part.counter_path, mixed.key, model, numbers
            by_name[mixed.name if name in by_name else name] = runner.executor.one(tokens_by_merges, task)
        except PipelineError as error:
            missing(f"no savings of {mixed.name}: {error}")
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


def change_of(options: ExtendOptions) -> Change:
    """Return what is asked for; `UsageError` if it is not possible, before anything is written."""
    if options.output is None and not options.dry_run:
        raise UsageError("extend needs --output, a directory for the extended tokenizer")
    if options.add is None and options.stop_at_saving is None:
        raise UsageError("extend needs --add, the number of new tokens, or --stop-at-saving, which chooses it")
    model, run = load_model(options.base), manifest.require(options.run)
    asked: dict[str, Any] = {
        "add": _MOST_NEW if options.add is None else options.add,
        "first_id": options.first_id,
        "stop_at_saving": options.stop_at_saving,
        "special_tokens": list(options.added_special_tokens),
        **_rules(options, run.manifest.texts),
    }
    require_extendable(model)
    marked, _ = _prepared(model, options.base, asked)
    marks = len(marked.vocabulary.special_tokens) - len(model.vocabulary.special_tokens)
    start_of(model, asked["add"] + marks, asked["first_id"])
    vocabulary_texts(marked.vocabulary, "tokenizer.json")
    return Change("extend", options.base, model, run, asked)


def _rules(options: ExtendOptions, texts: Sequence[Text]) -> dict[str, Any]:
    """Return the rules of merging by name; by default a pair occurs twice in text, once in counts of another kind."""
    least = 1 if any(text.key and not text.is_run for text in texts) else 2
    rules = MergeRules.of(options.replace(min_frequency=options.min_frequency or least))
    return {name: value for name, value in vars(rules).items() if hasattr(options, name)}


def _prepared(model: Model, base: Location, asked: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
    """Return the model before it learns, with more special tokens, and what is then asked."""
    first, texts = asked["first_id"], asked["special_tokens"]
    marked = with_added(model, texts, reserved=reserved_in(model, base) if texts else (), first_id=first)
    marks = len(marked.vocabulary.special_tokens) - len(model.vocabulary.special_tokens)
    return marked, {**asked, "first_id": None if first is None else first + marks}


def _write_extended(runner: Runner, change: Change, directory: Location) -> tuple[Learned, Model]:
    """Learn what is asked for and write all files into a directory."""
    learned, model = _learned(runner, change)
    if (saving := change.asked["stop_at_saving"]) is not None:
        by_name = _tokens_with_each(runner, change, model, learned, _refuse)
        count, why = learned.enough(change.asked["add"], saving, by_name)
        learned = replace(learned.first(count), chosen=why)
    runner.executor.one(write_table, (learned, directory))
    return learned, change.write(extended(model, learned), directory)


def _learned(runner: Runner, change: Change) -> tuple[Learned, Model]:
    """Learn as many tokens as are asked for; returns what the base is before, too."""
    model, asked = _prepared(change.model, change.base, change.asked)
    counted = require_counted(change.counts, runner.executor)
    task = replace(change.task(runner, counted), model=model, asked=asked)
    with _encoding_then_merging(runner, counted.facts.different_pre_tokens, asked["add"]) as advance:
        return runner.executor.one(learn, task, advance), model


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
