"""The two commands: each is a value of its options, a text, and the function that carries it out."""

from typing import Any

from bpe_pipeline.base.units import parse_whole_number
from bpe_pipeline.commands.declaration import Session, command
from bpe_pipeline.run.options import ClusterOptions, OutputOptions, Values, VocabularyOptions
from bpe_pipeline.run.record import argument, flag
from bpe_pipeline.storage import Location, parse_location

LENGTHS = "Lengths of tokens"  # the title of the help


class LengthsOptions(Values):
    """What `lengths` takes."""

    tokenizer: Location = argument("TOKENIZER", parse_location, "a run, or the directory or a file of a tokenizer")
    output: Location = argument("DIR", parse_location, "the directory to write")
    most: int = flag(100, parse_whole_number(1, 1000), "leave out tokens of more bytes than that", "BYTES")


class MergeShortOptions(ClusterOptions, OutputOptions, VocabularyOptions):
    """What `merge-short` takes: options of its own, and those of any merge."""

    run: Location = argument("RUN", parse_location, "the directory of a counted run")
    longest: int = flag(8, parse_whole_number(2, 1000), "bytes of the longest token", "BYTES")


def _facts() -> Any:
    from bpe_pipeline.reports.result import Facts

    return Facts


def _tokenizer() -> Any:
    from bpe_pipeline.commands.tokenizers import first_tokenizer

    return first_tokenizer


@command(group=LENGTHS, takes=LengthsOptions, returns=_facts)
def lengths(session: Session) -> Any:
    """Count the tokens of TOKENIZER by their lengths, into DIR.

    Returns:
        The lengths and how many tokens have each.
    """
    from token_lengths.directory import write

    options = session.options
    return write(options.output, options.tokenizer, options.most)


@command(group=LENGTHS, takes=MergeShortOptions, returns=_tokenizer)
def merge_short(session: Session) -> Any:
    """Train a tokenizer of short tokens from the counts of RUN.

    Returns:
        The tokenizer.
    """
    from bpe_pipeline.commands.combine import Combination, making_of, text_of_run, write_combination
    from bpe_pipeline.commands.merge import run_merge
    from bpe_pipeline.run import manifest
    from bpe_pipeline.run.directory import fingerprint
    from bpe_pipeline.run.stored import plain
    from bpe_pipeline.run.texts import Source
    from token_lengths.short_tokens import ShortTokens

    options, workers = session.options, (session.executor, session.listener)
    run, chooser = manifest.require(options.run), ShortTokens(options.longest)
    digest = fingerprint(run.manifest.counter_fingerprint(), plain(chooser))
    source = Source(chooser.KIND, digest, f"{run.directory}, merged to short tokens", chosen_by=plain(chooser))
    combination = Combination(
        [run], run.manifest.counting, run.manifest.cutting, source, [text_of_run(run, session.executor)]
    )
    making = making_of(session.given)
    made = write_combination(combination, making, *workers)
    return run_merge(made.directory, {key: one for key, one in session.given.items() if key != "output"}, *workers)
