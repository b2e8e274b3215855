"""Commands that train: train, count, merge, combine."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.commands.declaration import TRAIN, Session, command
from bpe_pipeline.commands.public.values import parse_runs, tokenizer_of
from bpe_pipeline.run.options import (
    CountOptions,
    MergeOptions,
    MixtureOptions,
    OutputOptions,
    PartOptions,
    PreTokenOptions,
    TrainOptions,
    flag_of,
)
from bpe_pipeline.run.record import GROUPS, Scope, argument, but, flag, option
from bpe_pipeline.run.values import parse_added_tokens, parsed
from bpe_pipeline.storage import Location, named

_LIKE_SAYS = ("pattern", "normalize", "special_tokens", "special_tokens_as_text")


def _like(**rare: Any) -> Any:
    text = "split text as this tokenizer does: its pattern, Unicode normalization and special tokens"
    return option(GROUPS[1], None, text, "TOKENIZER", scope=Scope.CALL, **rare)


def _parse_weights(value: object) -> Any:
    """Read a list of weights, which are parsed when their runs are known."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError("a list of numbers, one for each run")
    return tuple(value)


# fmt: off
class TrainCommandOptions(TrainOptions):
    """What `train` takes."""

    like: Location | None = _like(advanced=True)


class CountCommandOptions(PartOptions, CountOptions):
    """What `count` takes."""

    like: Location | None = _like()


class MergeCommandOptions(MergeOptions):
    """What `merge` takes."""

    output: Location | None = but(OutputOptions.output, help="make this run of the counts; default: RUN itself")
    run: Location = argument("RUN", "the run directory, a path or a URI")
    first_stage: Location | None = flag(None,
        "continue the merges of this run, of the same text, in RUN's longer pre-tokens: superwords", "RUN",
        advanced=True)


class CombineOptions(MixtureOptions, PartOptions, OutputOptions):
    """What `combine` takes."""

    runs: tuple[Any, ...] = argument("RUN|FILE ...",
        "the directories of runs, Parquet files with the columns `pre_token` and `count`, and mappings from pre-tokens "
        "(bytes or str) to numbers, such as `collections.Counter`", read=parse_runs, keyword=Any)
    weights: tuple[Any, ...] = flag((), "how often to count each term, in order  [default: 1]", "NUMBER",
        read=_parse_weights, flag="--weight", keyword=Sequence[Any] | None)
    pattern: str = but(PreTokenOptions.pattern, shown="",
        help="what split the pre-tokens of FILEs; default: as RUN, else gpt2")
    normalize: Literal["none", "nfc"] = but(PreTokenOptions.normalize, shown="",
        help="Unicode normalization of their text, none or nfc; default: as RUN, else none")
    special_tokens: tuple[str, ...] = but(PreTokenOptions.special_tokens,
        help="special token of their text, which no pre-token holds; default: as RUN, else <|endoftext|>",
        without="FILEs were counted without special tokens")
    temperature: str | None = but(MixtureOptions.temperature, advanced=False)
    shares: tuple[str, ...] | None = but(MixtureOptions.shares, advanced=False)
    dry_run: bool = CountOptions.dry_run
# fmt: on


def _as_like(given: Mapping[str, Any], *, new: bool = False) -> dict[str, Any]:
    """Take the pattern, the Unicode normalization and the special tokens from the tokenizer that --like names."""
    if given.get("like") is None:
        return {**given}
    for name in _LIKE_SAYS:
        if given.get(name) not in (None, False):
            raise UsageError(f"{flag_of(name)} is what --like takes from the tokenizer: leave one of them out")
    from bpe_pipeline.commands.like import options_like

    like = options_like(named(given["like"], flag_of("like")), new=new)
    named_too = {name: value for name, value in given.items() if value is not None}
    if "added_tokens" in named_too:  # behind those of the tokenizer
        added = parsed(flag_of("added_tokens"), named_too["added_tokens"], parse_added_tokens)
        named_too["added_tokens"] = {**(like["added_tokens"] or {}), **added}
    return {**like, **named_too}


def _plan(session: Session) -> Any:
    """Return what `--dry-run` prints: the run as it would be carried out."""
    from bpe_pipeline.commands.dry_run import plan

    return plan(session.options.to(TrainOptions), session.listener)


def _tokenizers() -> Any:
    from bpe_pipeline.commands.tokenizers import all_tokenizers

    return all_tokenizers


def _summary() -> Any:
    from bpe_pipeline.reports.summary import Summary

    return Summary


def _directory() -> Any:
    from bpe_pipeline.commands.combine import directory_of

    return directory_of


@command(group=TRAIN, takes=TrainCommandOptions, returns=tokenizer_of, settled=partial(_as_like, new=True))
def train(session: Session) -> Any:
    """Train a tokenizer on INPUT: count, merge, export and report.

    INPUT is files, directories, globs and URIs. Without INPUT, train on the sample corpus: the
    standard library of the running Python.

    \b
    bpe-pipeline train
    bpe-pipeline train corpus/*.txt --output runs/a --vocab-size 32000
    bpe-pipeline train corpus --pattern llama3 --special-token '<|endoftext|>' --workers 8
    bpe-pipeline train corpus --like qwen3/tokenizer.json --output runs/b

    A run directory that holds the same run is resumed; one that holds another run is refused.

    >>> tokenizer = bpe_pipeline.train("corpus.txt", output="runs/a", vocab_size=270)
    >>> tokenizer.decode(tokenizer.encode("low lower"))
    'low lower'

    Returns:
        The tokenizer; of several sizes the first (`merge` returns all).

    Raises:
        UsageError: for an option that means nothing.
        InputError: for a corpus that cannot be read.
        RunDirectoryError: for a directory that holds another run, is damaged or cannot be written.
        TrainingError: if training cannot do what was asked.
        PipelineError: the family of all of these.
    """
    if session.options.dry_run:
        return _plan(session)
    from bpe_pipeline.commands.train import run_train

    return run_train(session.options, session.executor, session.listener)


@command(group=TRAIN, takes=CountCommandOptions, returns=_summary, settled=_as_like)
def count(session: Session) -> Any:
    """Count the pre-tokens of INPUT into a run directory, for `merge`.

    \b
    bpe-pipeline count corpus --output runs/a
    bpe-pipeline count corpus/*.jsonl.zst --text-field body --pattern llama3 --output runs/b
    bpe-pipeline count corpus --like gpt2/tokenizer.json --output runs/c

    >>> counted = bpe_pipeline.count("corpus.txt", output="runs/counted")
    >>> counted.corpus.pre_tokens, counted.corpus.different_pre_tokens
    (60, 6)
    >>> len(bpe_pipeline.merge(counted.directory, vocab_size=270)[270])
    270

    Returns:
        What was counted: `directory`, `corpus`, `pattern` and the time.

    Raises:
        PipelineError: as `train` does.
    """
    if session.options.dry_run:
        return _plan(session)
    from bpe_pipeline.commands.count import run_count

    return run_count(session.options, session.executor, session.listener)


@command(
    group=TRAIN,
    takes=MergeCommandOptions,
    returns=_tokenizers,
    too_many="merge takes one RUN: let several choose with `parity`, or add their counts with `combine`",
)
def merge(session: Session) -> Any:
    """Learn a vocabulary from the counts in RUN and export it.

    No text is read again, not even for other --weight or --temperature. With --output, RUN
    stays as it is and its counts become those of another run, with other weights if they are given.

    \b
    bpe-pipeline merge runs/a --vocab-size 32000
    bpe-pipeline merge runs/a --vocab-size 8000,16000 --export hf,tiktoken
    bpe-pipeline merge runs/long --first-stage runs/a --superwords-from 80% --vocab-size 32000

    >>> counted = bpe_pipeline.combine({"low": 5, "lower": 2, "widest": 3, "newest": 6}, output="runs/a")
    >>> tokenizers = bpe_pipeline.merge(counted, vocab_size=[259, 258])
    >>> tokenizers[259].merges
    [(b'e', b's'), (b'es', b't')]

    Returns:
        The tokenizers by size.

    Raises:
        PipelineError: as `train` does.
    """
    from bpe_pipeline.commands.merge import run_merge

    options = session.options
    return run_merge(options.run, options.to(TrainOptions), session.executor, session.listener, options.first_stage)


@command(group=TRAIN, takes=CombineOptions, positional=("runs", "weights"), returns=_directory)
def combine(session: Session) -> Any:
    """Add the counts of RUNs and FILEs, with weights, into a new run.

    Nothing is counted again. Weights are relative: the smallest is 1. Each count is multiplied by the weight of its
    RUN or FILE, rounded half up. --temperature and --share make weights from the runs' counted bytes. FILEs are Parquet
    with the columns `pre_token` and `count`, of any program, or the `counter.parquet` of a run.

    \b
    bpe-pipeline combine runs/english runs/code --weight 1 --weight 2.5 --output runs/mixed
    bpe-pipeline combine runs/en runs/ja runs/sw --temperature 3 --share sw=5% --output runs/even
    bpe-pipeline combine counts.parquet --pattern gpt2 --output runs/imported
    bpe-pipeline merge runs/mixed --vocab-size 32000

    A float counts as its shortest decimal number.

    >>> counts = bpe_pipeline.combine({"low": 2, "lower": 2}, output="runs/counts")
    >>> bpe_pipeline.combine([counts, {"low": 5}], weights=[1, "2.5"], output="runs/both")
    PosixPath('runs/both')

    Returns:
        The run directory.

    Raises:
        UsageError: for weights that do not fit.
        InputError: naming the position of a count that is not positive or a pre-token that cannot be one.
        RunDirectoryError: for runs that are not completely counted or cannot be compared.
        TrainingError: for counts beyond 2^63 - 1.
    """
    if session.options.dry_run:
        from bpe_pipeline.commands.dry_run import plan_combination

        return plan_combination(session.options, session.listener)
    from bpe_pipeline.commands.combine import combination_asked, write_combination

    options, workers = session.options, (session.executor, session.listener)
    return write_combination(combination_asked(options, *workers), options, *workers)


COMMANDS = (train, count, merge, combine)
