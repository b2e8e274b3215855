"""The commands that work on runs: train, count, merge, combine, import, verify, report."""

import click

from pipeline.cli.command import (
    CLUSTER_OPTIONS,
    COUNTING_OPTIONS,
    RUN_OPTIONS,
    Result,
    Session,
    inputs,
    location_type,
    run_argument,
    run_command,
    summary_result,
)
from pipeline.run.options import OPTION_FIELDS
from pipeline.storage import Location

_TRAIN = tuple(
    name for name, option in OPTION_FIELDS.items() if name != "inputs" and option.metadata["stage"] != "encode"
)
_COUNT = (
    *("output", *COUNTING_OPTIONS, "input_format", "compression", "text_field", "chunk_size", "pattern_timeout"),
    *("fail_on_loss", "dry_run", "overwrite", *CLUSTER_OPTIONS, *RUN_OPTIONS),
)
_MERGE = (
    *("vocab_size", "tie_break", "min_frequency", "min_piece_count", "max_token_bytes", "special_ids", "export"),
    *("chat_template", "overwrite", *CLUSTER_OPTIONS, *RUN_OPTIONS),
)


@run_command(*_TRAIN)
@inputs
def train(session: Session) -> Result:
    """Count, merge, export and report: train a tokenizer on INPUT (files, directories, globs, URIs, -: standard input).

    Without INPUT, train on the sample corpus: the running Python's own standard library.

    \b
    bpe-pipeline train
    bpe-pipeline train corpus/*.txt --output runs/a --vocab-size 32000
    bpe-pipeline train corpus --pattern llama3 --special-token '<|endoftext|>' --workers 8
    """
    from pipeline.commands.train import run_train

    return summary_result(run_train(session.options, session.executor, session.listener)[0])


@run_command(*_COUNT)
@inputs
def count(session: Session) -> Result:
    """Count the pieces of INPUT into a run directory; `merge` makes tokenizers from it.

    \b
    bpe-pipeline count corpus --output runs/a
    bpe-pipeline count corpus/*.jsonl.zst --text-field body --pattern llama3 --output runs/b
    """
    from pipeline.commands.count import run_count

    return summary_result(run_count(session.options, session.executor, session.listener))


@run_command(*_MERGE)
@run_argument
def merge(session: Session, run_directory: Location) -> Result:
    """Learn a vocabulary from the counts in RUN and export it; nothing is counted again.

    \b
    bpe-pipeline merge runs/a --vocab-size 32000
    bpe-pipeline merge runs/a --vocab-size 8000,16000 --export hf,tiktoken
    """
    from pipeline.commands.merge import run_merge

    return summary_result(run_merge(run_directory, session.given, session.executor, session.listener)[0])


@run_command("output", "overwrite", *RUN_OPTIONS, only_here=True)
@click.argument("runs", nargs=-1, type=location_type, metavar="RUN ...", required=True)
@click.option(
    "--weight", "weights", multiple=True, metavar="NUMBER", help="of each run, in their order: 2.5, 1/3  [default: 1]"
)
def combine(session: Session, runs: tuple[Location, ...], weights: tuple[str, ...]) -> Result:
    """Add the counts of RUNs into a new run: a mixture, without counting again.

    Each count is multiplied by its run's weight, rounded half up and never below 1.

    \b
    bpe-pipeline combine runs/english runs/code --weight 1 --weight 2.5 --output runs/mixed
    bpe-pipeline merge runs/mixed --vocab-size 32000
    """
    from pipeline.commands.combine import run_combine

    return summary_result(run_combine(runs, weights, session.options, session.executor, session.listener))


@run_command("output", *COUNTING_OPTIONS, "pattern_timeout", "overwrite", *RUN_OPTIONS, name="import", only_here=True)
@click.argument("files", nargs=-1, type=location_type, metavar="FILE ...", required=True)
def import_(session: Session, files: tuple[Location, ...]) -> Result:
    """Make a run from piece counts in FILEs (paths or URIs): TSV (piece, tab, count) or Parquet (columns piece, count).

    The options describe how the pieces were made; `merge` learns a vocabulary from the run.

    \b
    bpe-pipeline import counts.tsv --pattern gpt2 --output runs/imported
    bpe-pipeline merge runs/imported --vocab-size 32000
    """
    from pipeline.commands.import_counts import run_import

    return summary_result(run_import(list(files), session.options, session.executor, session.listener))


@run_command(*RUN_OPTIONS, only_here=True)
@run_argument
def verify(session: Session, run_directory: Location) -> Result:
    """Check everything in RUN: checksums, sums of counts, each merge by a second method, the tokenizers' files.

    \b
    bpe-pipeline verify runs/a
    """
    from pipeline.commands.verify import run_verify
    from pipeline.report.summary import two_columns

    verified = run_verify(run_directory, session.options, session.executor, session.listener)
    return Result("verified", verified, two_columns(verified.items()))


@run_command(*RUN_OPTIONS, only_here=True)
@run_argument
@click.option(
    "--compare", multiple=True, type=location_type, metavar="PATH",
    help="another tokenizer on the same sample: a directory, tokenizer.json or a run; repeatable",
)  # fmt: skip
@click.option(
    "--held-out", multiple=True, type=location_type, metavar="PATH",
    help="text that was not trained on, to measure with; repeatable; default: a sample of the run's corpus",
)  # fmt: skip
@click.option(
    "--output", type=location_type, metavar="FILE",
    help="path of the page, with its numbers next to it as .json; default: the run directory",
)  # fmt: skip
def report(
    session: Session,
    run_directory: Location,
    compare: tuple[Location, ...],
    held_out: tuple[Location, ...],
    output: Location | None,
) -> Result:
    """Make the report of RUN again: report.html, report.txt and report.json.

    \b
    bpe-pipeline report runs/a
    bpe-pipeline report runs/a --held-out unseen/*.txt --compare runs/b --compare gpt2/tokenizer.json
    """
    from pipeline.base.events import Notice
    from pipeline.commands.report import run_report

    reported = run_report(
        run_directory, session.options, session.executor, compare=compare, held_out=held_out, output=output
    )
    if reported.hint and not session.options.log_json:
        session.listener(Notice("info", reported.hint))
    written = list(map(str, reported.written))
    return Result("reported", {"written": written, "hint": reported.hint}, "\n".join(written), "\n".join(written))
