"""The group that all commands belong to, and the arguments that several of them take."""

import click

from pipeline import __version__
from pipeline.storage import Location, parse_location

PROGRAM = "bpe-pipeline"


def location_type(text: str) -> Location:
    """A path or a URI, as an argument or a flag gives it."""
    try:
        return parse_location(text)
    except ValueError as error:
        raise click.BadParameter(f"expected {error}, not {text!r}") from None


debug = click.option("--debug", is_flag=True, expose_value=False, help="show the traceback of a failure")
inputs = click.argument("inputs", nargs=-1, metavar="[INPUT ...]")
run_argument = click.argument("run_directory", type=location_type, metavar="RUN")
tokenizer_option = click.option(
    "--tokenizer",
    type=location_type,
    required=True,
    metavar="DIR",
    help="a tokenizer directory, tokenizer.json, or a run",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name=PROGRAM)
@debug
def commands() -> None:
    """Train byte-level BPE tokenizers on corpora larger than memory: exact, parallel, resumable."""
