"""The commands about counts as things of their own: combine, import, verify."""

from typing import Any

import click

from pipeline.cli.group import commands, debug, location_type, run_argument
from pipeline.cli.options import COUNTING_OPTIONS, RUN_OPTIONS, carry_out, run_options, settle
from pipeline.storage import Location

_COMBINE_OPTIONS = ("output", "overwrite", *RUN_OPTIONS)
_IMPORT_OPTIONS = ("output", *COUNTING_OPTIONS, "pattern_timeout", "overwrite", *RUN_OPTIONS)
_VERIFY_OPTIONS = RUN_OPTIONS


@commands.command()
@click.argument("runs", nargs=-1, type=location_type, metavar="RUN ...", required=True)
@click.option(
    "--weight", "weights", multiple=True, metavar="NUMBER", help="of each run, in their order: 2.5, 1/3  [default: 1]"
)
@run_options(*_COMBINE_OPTIONS)
@debug
def combine(runs: tuple[Location, ...], weights: tuple[str, ...], **values: Any) -> None:
    """Add the counts of RUNs into a new run: a mixture, without counting again.

    Each count is multiplied by its run's weight, rounded half up and never below 1.

    \b
    bpe-pipeline combine runs/english runs/code --weight 1 --weight 2.5 --output runs/mixed
    bpe-pipeline merge runs/mixed --vocab-size 32000
    """
    settled = settle(_COMBINE_OPTIONS, values)
    if settled is not None:
        from pipeline.run.workers import executor_here

        options = settled.options
        with executor_here(options) as executor:  # its workers start beside the next import
            from pipeline.commands.combine import run_combine

            carry_out(options, lambda listener: run_combine(runs, weights, options, executor, listener))


@commands.command("import")
@click.argument("files", nargs=-1, type=location_type, metavar="FILE ...", required=True)
@run_options(*_IMPORT_OPTIONS)
@debug
def import_(files: tuple[Location, ...], **values: Any) -> None:
    """Make a run of piece counts in FILEs, paths or URIs: TSV (piece, tab, count) or Parquet (columns piece, count).

    The options say what cut the pieces; `merge` goes on with the run.

    \b
    bpe-pipeline import counts.tsv --pattern gpt2 --output runs/imported
    bpe-pipeline merge runs/imported --vocab-size 32000
    """
    settled = settle(_IMPORT_OPTIONS, values)
    if settled is not None:
        from pipeline.run.workers import executor_here

        options = settled.options
        with executor_here(options) as executor:  # its workers start beside the next import
            from pipeline.commands.import_counts import run_import

            carry_out(options, lambda listener: run_import(list(files), options, executor, listener))


@commands.command()
@run_argument
@run_options(*_VERIFY_OPTIONS)
@debug
def verify(run_directory: Location, **values: Any) -> None:
    """Check all of RUN: checksums, sums of counts, every merge by a second method, the tokenizers' files.

    \b
    bpe-pipeline verify runs/a
    """
    settled = settle(_VERIFY_OPTIONS, values)
    if settled is not None:
        from pipeline.report import progress
        from pipeline.run.workers import executor_here

        options = settled.options
        with executor_here(options) as executor:  # its workers start beside the next import
            from pipeline.commands.verify import run_verify

            with progress.listener(quiet=options.quiet, log_json=options.log_json) as listener:
                verified = run_verify(run_directory, options, executor, listener)
        if options.log_json:
            progress.write_json("verified", verified)
        elif not options.quiet:
            width = max(map(len, verified))
            progress.write("\n".join(f"{name:<{width}}  {found}" for name, found in verified.items()))
