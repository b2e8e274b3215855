"""The command: a value of its options, a text, and the function that carries it out."""

from typing import Any

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.commands.declaration import Session, command
from bpe_pipeline.run.options import Values
from bpe_pipeline.run.record import argument, flag
from bpe_pipeline.storage import Location


class LengthsOptions(Values):
    """What `lengths` takes."""

    tokenizer: Location = argument("TOKENIZER", "a run, or the directory or a file of a tokenizer")
    output: Location = argument("DIR", "the directory to write")
    most: int = flag(100, "leave out tokens of more bytes than that", "BYTES", read=parse_whole_number(1, 1000))


def _facts() -> Any:
    from bpe_pipeline.reports.result import Facts

    return Facts


@command(group="Lengths of tokens", takes=LengthsOptions, returns=_facts)
def lengths(session: Session) -> Any:
    """Count the tokens of TOKENIZER by their lengths, into DIR.

    Returns:
        The lengths and how many tokens have each.
    """
    from token_lengths.directory import write

    options = session.options
    return write(options.output, options.tokenizer, options.most)
