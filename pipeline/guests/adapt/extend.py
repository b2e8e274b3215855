"""`extend`: new tokens for a tokenizer that exists, learned from a run's counts; its ids and merges stay.

`count --like` counts a corpus as such a tokenizer cuts it.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from pipeline.base.errors import PipelineError, RunDirectoryError, UsageError
from pipeline.base.events import Listener
from pipeline.counts.as_text import bounds
from pipeline.counts.count import Counted, require_counted
from pipeline.executors import Executor
from pipeline.guests.adapt.change_worker import tokens_by_merges
from pipeline.guests.adapt.extend_worker import Learned, NewToken, extended, learn, require_extendable, start_of
from pipeline.guests.adapt.origin import Change, changing, whole_number
from pipeline.guests.adapt.savings import Saving, Savings
from pipeline.merges.merge import STAGE
from pipeline.pattern.presets import NAME
from pipeline.reports.progress import for_python
from pipeline.run import manifest
from pipeline.run.keywords import AnyPath, OutputKeywords
from pipeline.run.listed_options import lists_options
from pipeline.run.make_options import make_options
from pipeline.run.manifest import Run
from pipeline.run.options import ExtendOptions, flag_of
from pipeline.run.patterns import cut_by
from pipeline.run.runner import Advance, Runner, watched
from pipeline.run.values import argument, parse_share
from pipeline.run.workers import executor_here
from pipeline.storage import Location, location, named
from pipeline.tokenizer.export import news_of, with_added
from pipeline.tokenizer.formats.byte_alphabet import vocabulary_texts
from pipeline.tokenizer.formats.changed import write_changed
from pipeline.tokenizer.formats.files import load_model
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.tokenizer import Tokenizer

ENCODING = "encoding pieces"
_MOST_NEW = 64_000  # where a saving chooses
_CUTTING = {"expression": "the pattern", "by": "what cuts", "unicode": "the Unicode version", "text": "the text"}


@dataclass(frozen=True)
class Extended:
    """An extended tokenizer. plan: its new tokens, as new-tokens.parquet has them. made_again: old ids that merges
    alone did not make and now make. before, after: the tokens of all counted pieces; savings: what fewer new ones save.
    special_tokens: those that were added; notes: their ids, and how often they were text."""

    tokenizer: Tokenizer
    plan: tuple[NewToken, ...]
    made_again: tuple[int, ...]
    stopped: str
    before: int
    after: int
    savings: tuple[Saving, ...]
    special_tokens: dict[str, int]
    notes: tuple[str, ...]


@lists_options
def extend(
    base: AnyPath,
    run: AnyPath,
    *,
    add: int | None = None,
    first_id: int | None = None,
    stop_at_saving: float | str | None = None,
    added_special_tokens: str | Sequence[str] = (),
    min_frequency: int = 1,
    whole_characters: bool = False,
    progress: bool = False,
    **options: Unpack[OutputKeywords],
) -> Extended:
    """Add tokens to a tokenizer, learned from the counts of a run; old ids and merges stay.

    >>> pipeline.Tokenizer.from_merges([(b"l", b"o"), (b"lo", b"w")]).save("base")
    >>> run = pipeline.import_counts({"lowlow": 3, "low": 9}, special_tokens=[], output="runs/a")
    >>> done = pipeline.extend("base", run, add=1, output="extended")
    >>> done.plan[0].id, done.plan[0].token, done.plan[0].old_ids
    (258, b'lowlow', (257, 257))
    >>> done.tokenizer.encode("low lowlow")
    [257, 220, 258]

    Args:
        base: the tokenizer, a path or a URI, as `Tokenizer.load` reads it.
        run: the run directory; its pieces must be cut as the tokenizer cuts.
        add: how many new tokens are learned; 0: none. With `stop_at_saving` the most, default: 64,000.
        first_id: the first new id; default: one more than the largest of the base.
        stop_at_saving: choose the smallest number from which on no doubling saves this share of tokens, such as "1%".
        added_special_tokens: marks to add, such as those of a chat; they get reserved ids first, then new ones.
        min_frequency: join no pair of tokens that occurs less often.
        whole_characters: join no part of a character of UTF-8 with anything but its other bytes.
        progress: as of `pipeline.train`.
        **options: `output`, the new tokenizer's directory, and `overwrite`, `workers`, `memory_limit`.

    Returns:
        The tokenizer and its new tokens.

    Raises:
        UsageError: a new id is taken, memory is too small, or counts do not show how the tokenizer prepares text.
        RunDirectoryError: the run is not completely counted, or was cut differently.
        TrainingError: there is nothing to learn.
        ExportRefusedError: tokenizer.json cannot hold the result.
    """
    rules = {"min_frequency": min_frequency, "whole_characters": whole_characters}
    settled = make_options(ExtendOptions, {**options, **rules, "added_special_tokens": added_special_tokens})
    with for_python(progress) as listener, executor_here(settled) as executor:
        new = {"add": add, "first_id": first_id, "stop_at_saving": stop_at_saving}
        change = change_of(named(base, "base"), named(run, "run"), new, settled)
        return run_extend(change, settled, executor, listener)


def run_extend(change: Change, options: ExtendOptions, executor: Executor, listener: Listener) -> Extended:
    """Learn, write the tokenizer's directory, and return what was added."""
    with changing(change, options, executor, listener, _require_same_cutting) as (runner, counted, directory):
        learned, written = make_extended(runner, change, counted, directory)
    stopped = learned.chosen or "as many as were asked for"
    if not learned.chosen and len(learned.new) < (wanted := change.asked["add"]):
        often = "at all" if options.min_frequency == 1 else f"{options.min_frequency:,} times"
        stopped = f"{wanted - len(learned.new):,} fewer than were asked for: no pair is left that occurs {often}"
        runner.warn(f"the tokenizer has {stopped}")
    tokenizer, again = Tokenizer.from_model(written), learned.made_again
    special, old = written.vocabulary.special_tokens, change.model.vocabulary.special_tokens
    marks = {text: id_ for text, id_ in special.items() if text not in old}
    notes = [*news_of(change.model, written), *(line for line, _ in bounds(change.run, [*marks], executor))]
    how = stopped, learned.before, learned.after, learned.savings(), marks, tuple(notes)
    return Extended(tokenizer, learned.new, again, *how)


def run_dry(change: Change, options: ExtendOptions, executor: Executor, listener: Listener) -> Savings:
    """Learn, write nothing, and return how many tokens each number of new ones saves."""
    everything = replace(change, asked={**change.asked, "stop_at_saving": None})
    with watched(options, executor, listener) as runner, tempfile.TemporaryDirectory() as scratch:
        _require_same_cutting(runner, change.model, change.run)
        learned, marked = _learned(runner, everything, require_counted(change.run, executor), Path(scratch))
        savings, runs = learned.savings(), _of_runs(runner, change.run, marked, learned)
    saving = change.asked["stop_at_saving"]
    count, why = (None, "") if saving is None else learned.enough(change.asked["add"], saving)
    where = change.base, change.run.directory.location
    return Savings(*where, tuple(learned.tokens), learned.before, savings, count, why, runs)


def _of_runs(runner: Runner, run: Run, marked: Model, learned: Learned) -> dict[str, tuple[int, ...]]:
    """Return the tokens of each input, or of each run that was combined; warns of a run that changed or is gone."""
    old, found = len(marked.vocabulary.left), dict[str, tuple[int, ...]]()
    new = [learned.result.index(learned.new[one.new_tokens - 1].id) + 1 for one in learned.savings()]
    model = extended(marked, learned)
    plan, numbers = run.manifest.plan, (old, *(old + merges for merges in new))
    for name, chunks in zip(plan.inputs, plan.chunks_of_inputs(), strict=True) if len(plan.inputs) > 1 else ():
        tasks = [(*counter, model, numbers) for counter in run.chunk_counters(chunks)]
        tokens = [runner.executor.one(tokens_by_merges, task) for task in tasks]
        found |= {name: tuple(map(sum, zip(*tokens, strict=True)))} if tokens else {}
    for one in run.manifest.source.mixed if run.manifest.source else ():
        try:
            part = manifest.require(location(one.run))
            task = part.counter_path, one.counts, model, numbers
            name = part.directory.location.name
            found[one.run if name in found else name] = runner.executor.one(tokens_by_merges, task)
        except PipelineError as error:
            runner.warn(f"no savings of {one.run}: {error}")
    return found


def change_of(base: Location, location: Location, new: Mapping[str, object], options: ExtendOptions) -> Change:
    """Return what is asked for; `UsageError` if it is not possible, before anything is written.

    new: `add`, `first_id` and `stop_at_saving`, as given, and whether it is a `dry_run`.
    """
    if options.output is None and not new.get("dry_run"):
        raise UsageError("extend needs --output, a directory for the extended tokenizer")
    share = new["stop_at_saving"]
    if share is not None:
        share = argument(flag_of("stop_at_saving"), share, parse_share)
    if new["add"] is None and share is None:
        raise UsageError("extend needs --add, the number of new tokens, or --stop-at-saving, which chooses it")
    asked: dict[str, Any] = {
        "add": _MOST_NEW if new["add"] is None else whole_number("add", new["add"]),
        "first_id": None if new["first_id"] is None else whole_number("first_id", new["first_id"]),
        "stop_at_saving": share,
        "special_tokens": list(options.added_special_tokens),
        "min_frequency": options.min_frequency,
        "whole_characters": options.whole_characters,
    }
    model, run = load_model(base), manifest.require(location)
    require_extendable(model)
    marked, _ = _marked(model, asked)
    marks = len(marked.vocabulary.special_tokens) - len(model.vocabulary.special_tokens)
    start_of(model, asked["add"] + marks, asked["first_id"])
    vocabulary_texts(marked.vocabulary, "tokenizer.json")
    return Change("extend", base, model, run, asked)


def _marked(model: Model, asked: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
    """Return the model with the special tokens that are added, and what is asked for of the ids after them."""
    first = asked["first_id"]
    marked = with_added(model, asked["special_tokens"], reserved=True, first_id=first)
    marks = len(marked.vocabulary.special_tokens) - len(model.vocabulary.special_tokens)
    return marked, {**asked, "first_id": None if first is None else first + marks}


def make_extended(runner: Runner, change: Change, counted: Counted, directory: Location) -> tuple[Learned, Model]:
    """Learn what is asked for and write all files into a directory."""
    learned, marked = _learned(runner, change, counted, directory)
    return learned, write_changed(change.base, extended(marked, learned), None, directory)


def _learned(runner: Runner, change: Change, counted: Counted, directory: Location) -> tuple[Learned, Model]:
    """Learn what is asked for and write its table; returns the base with the special tokens that are added, too."""
    model, asked = _marked(change.model, change.asked)
    task = replace(change.task(runner, counted, directory), model=model, asked=asked)
    with _encoding_then_merging(runner, counted.facts.different_pieces, asked["add"]) as advance:
        return runner.executor.one(learn, task, advance), model


@contextlib.contextmanager
def _encoding_then_merging(runner: Runner, pieces: int, merges: int) -> Iterator[Advance]:
    """Report two stages of one task: the pieces that it has encoded, then its merges."""
    done, merging = 0, None
    with contextlib.ExitStack() as stages:
        encoding = stages.enter_context(runner.reporting(ENCODING, pieces, "pieces"))

        def advance(amount: int) -> None:  # below 0 for an attempt that failed
            nonlocal done, merging
            before, done = done, done + amount
            encoded = min(done, pieces) - min(before, pieces)
            if encoded:
                encoding(encoded)
            if done >= pieces and merging is None:
                stages.close()
                merging = stages.enter_context(runner.reporting(STAGE, merges, "merges"))
            if merging is not None and amount != encoded:
                merging(amount - encoded)

        yield advance


def _require_same_cutting(runner: Runner, model: Model, run: Run) -> None:
    """Raise `RunDirectoryError` if the run's pieces are not those that the tokenizer cuts; warn of separators."""
    counting, expected = run.manifest.counting, cut_by(model.counting_pattern)
    for name, value in expected.items():
        if run.manifest.cutting.get(name) != value:
            raise RunDirectoryError(
                f"{run.directory} was not cut as the tokenizer cuts: {_CUTTING[name]} is "
                f"{run.manifest.cutting.get(name)!r} there and {value!r} here; count the corpus with --like"
            )
    if counting["max_piece_bytes"] is not None:
        raise RunDirectoryError(
            f"{run.directory} was counted with --max-piece-bytes, which cuts pieces that the tokenizer leaves whole; "
            "count the corpus with --like"
        )
    separators = set() if counting["special_tokens_as_text"] else {*counting["special_tokens"]}
    added = {*model.vocabulary.special_tokens}
    if (other := sorted(separators - added)) and run.manifest.source is None:
        raise RunDirectoryError(
            f"{run.directory} was counted with --special-token {other[0]!r}, which the tokenizer takes as text; count "
            f"the corpus with --like, and with --split-at {other[0]!r} if it separates documents there"
        )
    if missing := sorted(added - separators - {*counting["split_at"]}):
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        runner.warn(
            f"{run.directory} was counted without the special token {missing[0]!r}{more}: where the corpus has it, it "
            "was counted as text; count with --like if it does"
        )


def options_like(base: Location, *, new: bool = False) -> dict[str, Any]:
    """Return the options that count a corpus as this tokenizer cuts it: with its added tokens as separators.

    new: for a vocabulary of its own, with the same roles, and without added tokens that are text, such as spaces.
    """
    model = load_model(base)
    require_extendable(model)
    expression, rules = model.pattern.expression, model.preparation.rules if new else {}
    special = [text for text in model.vocabulary.special_tokens if not (text in rules and rules[text].normalized)]
    roles = {f"{role}_token": text for role, text in asdict(model.roles).items() if role != "separator"}
    return {
        "pattern": model.pattern.name or (f"(?:{expression})" if NAME.fullmatch(expression) else expression),
        "normalize": "nfc" if model.preparation.nfc else "none",
        "special_tokens": tuple(special),
        **{role: text for role, text in roles.items() if new and text in special},
    }
