"""Commands of counts and of the system: import-counts, export-counts, env."""

from typing import TYPE_CHECKING

import click

from pipeline.base.errors import UsageError
from pipeline.cli.command import Request, Session, command, overwrite_option, run_argument, run_command
from pipeline.cli.completion import LOCATION
from pipeline.run.options import ImportOptions, RayOptions
from pipeline.storage import Location

if TYPE_CHECKING:
    from pipeline.reports.result import Result


@run_command(ImportOptions, name="import-counts")
@click.argument("files", nargs=-1, type=LOCATION, metavar="FILE ...", required=True)
def import_counts(session: Session, files: tuple[Location, ...]) -> "Result":
    """Make a run from the piece counts in FILEs.

    A FILE is TSV (piece, tab, count) or Parquet (columns piece, count), a path or a URI. The options describe how the
    pieces were made; `merge` learns a vocabulary from the run.

    \b
    bpe-pipeline import-counts counts.tsv --pattern gpt2 --output runs/imported
    bpe-pipeline merge runs/imported --vocab-size 32000
    """
    from pipeline.commands.import_counts import run_import

    return run_import(list(files), session.options, session.executor, session.listener)


@command()
@run_argument
@click.argument("file", type=LOCATION, metavar="FILE")
@click.option("--memory-limit", metavar="SIZE", help="memory for all processes together")
@overwrite_option
def export_counts(run_directory: Location, file: Location, memory_limit: str | None, overwrite: bool) -> "Result":
    """Write the piece counts of RUN to FILE, a .tsv or .parquet.

    Each count is a line `piece<TAB>count`, the most frequent first; `import-counts` reads them back exactly.

    \b
    bpe-pipeline export-counts runs/a counts.tsv
    """
    from pipeline.commands.export_counts import export_counts
    from pipeline.reports.result import Facts

    if file.suffix not in (".tsv", ".parquet"):
        raise UsageError(f"{file}: the name must end in .tsv or .parquet, which says the format")
    different = export_counts(run_directory, file, memory_limit=memory_limit, overwrite=overwrite)
    return Facts({"file": str(file), "different_pieces": different})


@command(RayOptions)
def env(request: Request) -> "Result":
    """Print versions and the machine, for a bug report.

    With --ray, also the nodes of the cluster.

    \b
    bpe-pipeline env
    bpe-pipeline env --ray
    """
    from pipeline.base.machine import describe
    from pipeline.reports.result import Facts
    from pipeline.run.workers import nodes

    machines = nodes(request.options)
    facts = describe() | {f"node {number}": str(node) for number, node in enumerate(machines)}
    if request.options.ray and not machines:
        facts["nodes"] = "none with cores"
    return Facts(facts)
