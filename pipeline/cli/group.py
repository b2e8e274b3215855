"""The group that all commands belong to, and the arguments that several of them take."""

from pathlib import Path

import click

from pipeline import __version__

PROGRAM = "bpe-pipeline"

debug = click.option("--debug", is_flag=True, expose_value=False, help="show the traceback of a failure")
inputs = click.argument("inputs", nargs=-1, metavar="[INPUT ...]")
run_argument = click.argument("run_directory", type=Path, metavar="RUN")
tokenizer_option = click.option(
    "--tokenizer", type=Path, required=True, metavar="DIR", help="a tokenizer directory, tokenizer.json, or a run"
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name=PROGRAM)
@debug
def commands() -> None:
    """Train byte-level BPE tokenizers on corpora larger than memory: exact, parallel, resumable."""
