"""The command report."""

from typing import Any

import click

from pipeline.cli.group import commands, debug, location_type, run_argument
from pipeline.cli.options import RUN_OPTIONS, run_options, settle
from pipeline.storage import Location


@commands.command()
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
    help="where the page goes, its numbers beside it as .json; default: the run directory",
)  # fmt: skip
@run_options(*RUN_OPTIONS)
@debug
def report(
    run_directory: Location,
    compare: tuple[Location, ...],
    held_out: tuple[Location, ...],
    output: Location | None,
    **values: Any,
) -> None:
    """Make the report of RUN again: report.html, report.txt and report.json.

    \b
    bpe-pipeline report runs/a
    bpe-pipeline report runs/a --held-out unseen/*.txt --compare runs/b --compare gpt2/tokenizer.json
    """
    settled = settle(RUN_OPTIONS, values)
    if settled is not None:
        from pipeline.report import progress
        from pipeline.run.workers import executor_here

        options = settled.options
        with executor_here(options) as executor:  # its workers start beside the next import
            from pipeline.commands.report import run_report

            reported = run_report(run_directory, options, executor, compare=compare, held_out=held_out, output=output)
        if options.log_json:
            progress.write_json(
                "reported", {"written": [str(path) for path in reported.written], "hint": reported.hint}
            )
            return
        progress.write("\n".join(map(str, reported.written)))
        if reported.hint and not options.quiet:
            click.echo(reported.hint, err=True)
