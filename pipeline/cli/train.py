"""Commands that train: train, count, merge, combine."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.base.errors import UsageError
from pipeline.cli.command import Request, Session, inputs, run_command
from pipeline.cli.completion import LOCATION, whole_number
from pipeline.cli.help import Flag
from pipeline.run.options import flag_of
from pipeline.storage import Location

if TYPE_CHECKING:
    from pipeline.reports.result import Result


@run_command()
@inputs
def train(session: Session) -> "Result":
    """Train a tokenizer on INPUT: count, merge, export and report.

    INPUT is files, directories, globs and URIs; - is standard input. Without INPUT, train on the sample corpus: the
    running Python's own standard library.

    \b
    bpe-pipeline train
    bpe-pipeline train corpus/*.txt --output runs/a --vocab-size 32000
    bpe-pipeline train corpus --pattern llama3 --special-token '<|endoftext|>' --workers 8
    """
    from pipeline.commands.train import run_train

    return run_train(session.options, session.executor, session.listener)[0]


def _like(request: Request, values: dict[str, Any]) -> Request:
    """Take the pattern and the special tokens of `count` from the tokenizer that --like names."""
    if (base := values.pop("like")) is None:
        return request
    for name in ("pattern", "special_tokens", "special_tokens_as_text", "max_piece_bytes"):
        if request.given.get(name):
            raise UsageError(f"{flag_of(name)} is what --like takes from the tokenizer: leave one of them out")
    from pipeline.guests.adapt.extend import counting_like

    return replace(request, options=counting_like(request.options, base))


@run_command(settle=_like)
@inputs
@click.option(
    "--like", type=LOCATION, metavar="BASE",
    help="cut as this tokenizer does, for `extend` and `prune`: its pattern, and its special tokens",
)  # fmt: skip
def count(session: Session) -> "Result":
    """Count the pieces of INPUT into a run directory, for `merge`.

    \b
    bpe-pipeline count corpus --output runs/a
    bpe-pipeline count corpus/*.jsonl.zst --text-field body --pattern llama3 --output runs/b
    bpe-pipeline count corpus --like gpt2/tokenizer.json --output runs/c
    """
    from pipeline.commands.count import run_count

    return run_count(session.options, session.executor, session.listener)


@run_command()
@click.argument("runs", nargs=-1, type=LOCATION, metavar="RUN ...", required=True)
@click.option(
    "--parity", is_flag=True, cls=Flag, group="Parity",
    help="let the RUNs, one a language, choose merges so that all compress alike",
)  # fmt: skip
@click.option(
    "--output", "-o", type=LOCATION, metavar="DIR", cls=Flag, group="Parity",
    help="with --parity: the new run directory; default: a new one under runs/",
)  # fmt: skip
@click.option(
    "--dev", multiple=True, type=LOCATION, metavar="RUN", cls=Flag, group="Parity",
    help="with --parity: what is measured in place of each RUN, such as translations of one text; repeatable",
)  # fmt: skip
@click.option(
    "--ratio", multiple=True, type=float, metavar="NUMBER", cls=Flag, group="Parity",
    help="with --parity: how much each RUN is to be compressed in relation to the others; repeatable",
)  # fmt: skip
@click.option(
    "--parity-window", type=whole_number(1), metavar="N", cls=Flag, group="Parity", advanced=True,
    help="with --parity: let no RUN have more than its share of the last N choices",
)  # fmt: skip
@click.option(
    "--parity-alpha", type=float, metavar="NUMBER", cls=Flag, group="Parity", advanced=True,
    help="with --parity-window: a share is this, divided by the number of RUNs  [default: 2]",
)  # fmt: skip
@click.option(
    "--global-merges", type=whole_number(0), metavar="N", cls=Flag, group="Parity", advanced=True,
    help="with --parity: choose the first N merges by the counts of all RUNs together",
)  # fmt: skip
def merge(session: Session, runs: tuple[Location, ...], parity: bool, **chosen_by: Any) -> "Result":
    """Learn a vocabulary from the counts in RUN and export it.

    Nothing is counted again, with other --weight of the inputs that were counted neither; --superwords-from reads the
    corpus a second time, once. With --parity, the counts of several RUNs become those of a new run, --output.

    \b
    bpe-pipeline merge runs/a --vocab-size 32000
    bpe-pipeline merge runs/a --vocab-size 8000,16000 --export hf,tiktoken
    bpe-pipeline merge runs/a --vocab-size 32000 --superwords-from 80%
    bpe-pipeline merge runs/en runs/sw --parity --vocab-size 32000 --output runs/fair
    """
    if parity:
        return _merge_by_parity(session, runs, **chosen_by)
    for name, value in chosen_by.items():
        if value not in (None, ()):
            raise UsageError(f"{flag_of(name)} means nothing without --parity: give both, or neither")
    if len(runs) > 1:
        raise UsageError("merge takes one RUN: give --parity, or add the counts of several with `combine`")
    from pipeline.commands.merge import run_merge

    return run_merge(runs[0], session.given, session.executor, session.listener)[0]


def _by_name(runs: tuple[Location, ...]) -> list[tuple[str, Location]]:
    """Give each run the name of its directory, or its whole location where several have that name."""
    homes = [run.resolve() if isinstance(run, Path) else run for run in runs]
    names = [home.name for home in homes]
    return [(name if names.count(name) == 1 else str(home), home) for name, home in zip(names, homes, strict=True)]


def _merge_by_parity(
    session: Session,
    runs: tuple[Location, ...],
    *,
    dev: tuple[Location, ...],
    ratio: tuple[float, ...],
    parity_window: int | None,
    parity_alpha: float | None,
    global_merges: int | None,
    output: Location | None,
) -> "Result":
    from pipeline.commands.parity import run_parity

    if parity_alpha is not None and parity_window is None:
        raise UsageError("--parity-alpha means nothing without --parity-window: give both, or neither")
    settings = {
        "ratios": ratio,
        "window": parity_window or 0,
        "alpha": 2.0 if parity_alpha is None else parity_alpha,
        "global_merges": global_merges or 0,
    }
    languages, measured = _by_name(runs), _by_name(dev)
    given = session.given if output is None else {**session.given, "output": output}
    return run_parity(languages, measured, settings, given, session.executor, session.listener)[0]


@run_command(only_here=True)
@click.argument("runs", nargs=-1, type=LOCATION, metavar="RUN ...", required=True)
@click.option(
    "--weight", "weights", multiple=True, metavar="NUMBER", help="of each run, in their order: 2.5, 1/3  [default: 1]"
)
def combine(session: Session, runs: tuple[Location, ...], weights: tuple[str, ...]) -> "Result":
    """Add the counts of RUNs, with weights, into a new run.

    Nothing is counted again. Each count is multiplied by its run's weight, rounded half up and never below 1.

    \b
    bpe-pipeline combine runs/english runs/code --weight 1 --weight 2.5 --output runs/mixed
    bpe-pipeline merge runs/mixed --vocab-size 32000
    """
    from pipeline.commands.combine import run_combine

    return run_combine(runs, weights, session.options, session.executor, session.listener)
