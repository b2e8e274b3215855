"""Commands of counts from elsewhere and of the system: import, env, version."""

from typing import TYPE_CHECKING

import click

from pipeline import __version__
from pipeline.cli.command import PROGRAM, Request, Session, command, run_command
from pipeline.cli.completion import LOCATION
from pipeline.storage import Location

if TYPE_CHECKING:
    from pipeline.reports.result import Result


@run_command(name="import", only_here=True)
@click.argument("files", nargs=-1, type=LOCATION, metavar="FILE ...", required=True)
def import_(session: Session, files: tuple[Location, ...]) -> "Result":
    """Make a run from the piece counts in FILEs.

    A FILE is TSV (piece, tab, count) or Parquet (columns piece, count), a path or a URI. The options describe how the
    pieces were made; `merge` learns a vocabulary from the run.

    \b
    bpe-pipeline import counts.tsv --pattern gpt2 --output runs/imported
    bpe-pipeline merge runs/imported --vocab-size 32000
    """
    from pipeline.commands.import_counts import run_import

    return run_import(list(files), session.options, session.executor, session.listener)


@command()
def env(request: Request) -> "Result":
    """Print versions and the machine, for a bug report.

    With --executor ray, also the nodes of the cluster.

    \b
    bpe-pipeline env
    bpe-pipeline env --executor ray --ray-address auto
    """
    from pipeline.base.machine import describe
    from pipeline.reports.result import Facts
    from pipeline.run.workers import nodes

    machines = nodes(request.options)
    facts = describe() | {f"node {number}": str(node) for number, node in enumerate(machines)}
    if request.options.executor != "local" and not machines:
        facts["nodes"] = "none with cores"
    return Facts(facts)


@command()
def version() -> None:
    """Print the version.

    \b
    bpe-pipeline version
    """
    click.echo(f"{PROGRAM} {__version__}")
