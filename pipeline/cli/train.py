"""Commands that train: train, count, merge, parity, combine."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pipeline.base.errors import UsageError
from pipeline.cli.command import Request, Session, inputs, run_command
from pipeline.cli.completion import LOCATION, PATH_TEXT
from pipeline.cli.help import Flag
from pipeline.run.options import CountOptions, MergeOptions, OutputOptions, ParityOptions, TrainOptions, flag_of
from pipeline.run.record import GROUPS
from pipeline.storage import Location

if TYPE_CHECKING:
    from pipeline.reports.result import Result


def _like(request: Request, values: dict[str, Any]) -> Request:
    """Take the pattern, the normal form and the special tokens from the tokenizer that --like names."""
    if (base := values.pop("like")) is None:
        return request
    for name in ("pattern", "normalize", "special_tokens", "special_tokens_as_text", "max_piece_bytes"):
        if request.given.get(name) not in (None, False):
            raise UsageError(f"{flag_of(name)} is what --like takes from the tokenizer: leave one of them out")
    from pipeline.guests.adapt.extend import options_like

    like = options_like(base, new=isinstance(request.options, TrainOptions))
    like = {name: value for name, value in like.items() if request.given.get(name) is None}
    return replace(request, options=replace(request.options, **like), given={**request.given, **like})


like_option = partial(
    click.option, "--like", type=LOCATION, metavar="TOKENIZER", cls=Flag, group=GROUPS[1],
    help="split text as this tokenizer does: its pattern, normal form and special tokens",
)  # fmt: skip


@run_command(TrainOptions, settle=_like)
@inputs
@like_option(advanced=True)
def train(session: Session) -> "Result":
    """Train a tokenizer on INPUT: count, merge, export and report.

    INPUT is files, directories, globs and URIs; - is standard input. Without INPUT, train on the sample corpus: the
    running Python's own standard library.

    \b
    bpe-pipeline train
    bpe-pipeline train corpus/*.txt --output runs/a --vocab-size 32000
    bpe-pipeline train corpus --pattern llama3 --special-token '<|endoftext|>' --workers 8
    bpe-pipeline train corpus --like qwen3/tokenizer.json --output runs/b
    """
    from pipeline.commands.train import run_train

    return run_train(session.options, session.executor, session.listener)[0]


@run_command(CountOptions, settle=_like)
@inputs
@like_option()
def count(session: Session) -> "Result":
    """Count the pieces of INPUT into a run directory, for `merge`.

    \b
    bpe-pipeline count corpus --output runs/a
    bpe-pipeline count corpus/*.jsonl.zst --text-field body --pattern llama3 --output runs/b
    bpe-pipeline count corpus --like gpt2/tokenizer.json --output runs/c
    """
    from pipeline.commands.count import run_count

    return run_count(session.options, session.executor, session.listener)


@run_command(MergeOptions)
@click.argument("runs", nargs=-1, type=LOCATION, metavar="RUN", required=True)
def merge(session: Session, runs: tuple[Location, ...]) -> "Result":
    """Learn a vocabulary from the counts in RUN and export it.

    Nothing is counted again, with other --weight of the inputs that were counted neither; --superwords-from reads the
    corpus a second time, once. With --output, RUN stays as it is and its counts become those of another run.

    \b
    bpe-pipeline merge runs/a --vocab-size 32000
    bpe-pipeline merge runs/a --vocab-size 8000,16000 --export hf,tiktoken
    bpe-pipeline merge runs/a --vocab-size 32000 --superwords-from 80% --output runs/b
    """
    if len(runs) > 1:
        raise UsageError("merge takes one RUN: let several choose with `parity`, or add their counts with `combine`")
    from pipeline.commands.merge import run_merge

    return run_merge(runs[0], session.given, session.executor, session.listener)[0]


@run_command(ParityOptions, in_file=("window", "alpha", "global_merges"))
@click.argument("runs", nargs=-1, type=PATH_TEXT, metavar="[NAME=]RUN ...", required=True)
@click.option(
    "--dev", multiple=True, type=PATH_TEXT, metavar="[NAME=]RUN",
    help="a run to measure in place of each RUN, such as a translation of one text; repeatable",
)  # fmt: skip
@click.option(
    "--compare-plain", is_flag=True, help="report what each language would have with plain merges of the same counts"
)
@click.option(
    "--ratio", multiple=True, type=click.FloatRange(0, min_open=True), metavar="NUMBER",
    help="instead of --dev: how much each RUN is to be compressed in relation to the others; repeatable",
)  # fmt: skip
def parity(session: Session, runs: tuple[str, ...], dev: tuple[str, ...], **settings: Any) -> "Result":
    """Let several RUNs, one a language, choose merges in turns.

    The RUN whose texts have the most tokens chooses next, so that all are compressed alike. Nothing is counted again:
    the counts of the RUNs become those of a new run. NAME=PATH names a language; if PATH is text, it is counted,
    with the options of a RUN among them.

    \b
    bpe-pipeline parity runs/en runs/sw --dev runs/en-dev --dev runs/sw-dev --output runs/fair
    bpe-pipeline parity en=texts/en sw=texts/sw --dev en=dev/en --dev sw=dev/sw --compare-plain --output runs/fair
    bpe-pipeline parity runs/en runs/sw --ratio 1 --ratio 1.2 --vocab-size 32000 --output runs/fair
    """
    from pipeline.guests.parity.parity import languages_of, run_parity

    named, measured = languages_of(runs, dev, session.given, session.executor, session.listener)
    return run_parity(named, measured, settings, session.given, session.executor, session.listener)[0]


@run_command(OutputOptions)
@click.argument("runs", nargs=-1, type=LOCATION, metavar="RUN ...", required=True)
@click.option(
    "--weight", "weights", multiple=True, metavar="NUMBER", help="how often to count each RUN, in order  [default: 1]"
)
def combine(session: Session, runs: tuple[Location, ...], weights: tuple[str, ...]) -> "Result":
    """Add the counts of RUNs, with weights, into a new run.

    Nothing is counted again. Weights are relative: the smallest is 1. Each count is multiplied by its run's weight,
    rounded half up.

    \b
    bpe-pipeline combine runs/english runs/code --weight 1 --weight 2.5 --output runs/mixed
    bpe-pipeline merge runs/mixed --vocab-size 32000
    """
    from pipeline.commands.combine import run_combine

    return run_combine(runs, weights, session.options, session.executor, session.listener)
