"""Commands that look at what exists: info, report, verify."""

from typing import Any

from bpe_pipeline.base.errors import InputError, RunDirectoryError
from bpe_pipeline.commands.declaration import INSPECT, Session, checking, command
from bpe_pipeline.commands.public.values import facts
from bpe_pipeline.run.options import Values, WorkOptions
from bpe_pipeline.run.record import argument, flag
from bpe_pipeline.storage import Location


# fmt: off
class InfoOptions(Values):
    """What `info` takes."""

    path: Location = argument("RUN|TOKENIZER|SHARDS", "a directory or file")


class ReportOptions(WorkOptions):
    """What `report` takes."""

    run: Location = argument("RUN",
        "a run directory, or that of one of its tokenizers, of an extended or pruned one, or of chat rows")
    compare: tuple[Location, ...] = flag((),
        "other tokenizers on the same sample: directories, files, runs, SentencePiece .model, or names such as gpt2",
        "[LABEL=]PATH...", words=True)
    held_out: tuple[Location, ...] = flag((),
        "text that was not trained on: files, directories, globs; if all have names, such as en=PATH, the same text in "
        "several languages; default: a sample of the corpus", "[NAME=]PATH...", words=True)
    name: str | None = flag(None, "what the tokenizer is called in tables and figures [default: this tokenizer]")
    output: Location | None = flag(None,
        "path of the page, with its numbers next to it as .json; default: the run directory", "FILE", short="-o")
    figures: Location | None = flag(None, "also write each figure as SVG, PDF and CSV, and each table as CSV", "DIR")
    overwrite: bool = flag(False, "replace a file that exists")


class VerifyOptions(WorkOptions):
    """What `verify` takes."""

    run: Location = argument("RUN", "the directory of a run, or of an extended or pruned tokenizer")
# fmt: on


def _result() -> Any:
    from bpe_pipeline.reports.result import Result

    return Result


@command(group=INSPECT, takes=InfoOptions, returns=facts)
def info(session: Session) -> Any:
    """Print what a run, a tokenizer or a directory of shards is.

    That is: sizes, special tokens with their ids, pattern, chat template, files, fingerprint.

    \b
    bpe-pipeline info runs/a
    bpe-pipeline info runs/a/tokenizer --json

    >>> bpe_pipeline.train("corpus.txt", output="runs/a", vocab_size=260).vocab_size
    260
    >>> bpe_pipeline.info("runs/a/tokenizer")["special_tokens"]
    {'<|endoftext|>': 259}

    Returns:
        The facts by name; those of a run have a list of `tokenizers`.

    Raises:
        InputError: there is no tokenizer, run or directory of shards.
        RunDirectoryError: the directory is damaged.
    """
    from bpe_pipeline.commands.info import info_of

    return info_of(session.options.path)


@command(
    group=INSPECT,
    takes=ReportOptions,
    returns=_result,
    too_many="report takes one run: {word} is another argument; to compare with it, use --compare",
)
def report(session: Session) -> Any:
    """Write the report of RUN, of one of its tokenizers, or of chat rows.

    It is a page, a text and JSON. A tokenizer is named by its directory, such as RUN/tokenizer-8000. For one that
    `extend` or `prune` made, print what changed, and the tokens of the counted text before and after. For rows of
    `encode-chat`, print how long conversations are, what is truncated and trained on. With --output, these are a page,
    too.

    \b
    bpe-pipeline report runs/a
    bpe-pipeline report runs/a --held-out unseen.txt --compare runs/b gpt2 llama3
    bpe-pipeline report runs/a --held-out en=dev.en sw=dev.sw --compare mine=runs/b --figures figures

    >>> trained = bpe_pipeline.train("corpus.txt", output="runs/a", vocab_size=260)
    >>> made = bpe_pipeline.report("runs/a", held_out="corpus/a.txt", compare="my-tokenizer")
    >>> [one.whole.name for one in made.numbers.sample.tokenizers]
    ['this tokenizer', 'my-tokenizer']

    Returns:
        The paths `written` and the `numbers`; for an extended or pruned tokenizer, what changed.

    Raises:
        UsageError: the run has no tokenizer, or an argument does not fit.
        InputError: a file cannot be read.
        RunDirectoryError: the run is damaged, or the output exists.
    """
    from bpe_pipeline.commands.run_report import report_of_directory, run_report
    from bpe_pipeline.run.extensions import maker_of
    from bpe_pipeline.shards.encoded_corpus import find_result

    options, encoded = session.options, find_result(session.options.run)
    if (maker := maker_of(options.run, encoded and encoded[1].made_by)) is not None:
        return report_of_directory(maker, options, session.executor)
    return run_report(options, session.executor, session.listener)


@command(group=INSPECT, takes=VerifyOptions, returns=facts)
def verify(session: Session) -> Any:
    """Check everything in RUN.

    That is: checksums of counters and merges, and the tokenizers' files, compared with an export made again. The exit
    code is 1 if something is wrong, 3 if it could not be checked.

    \b
    bpe-pipeline verify runs/a

    >>> tokenizer = bpe_pipeline.train("corpus.txt", output="runs/a", vocab_size=260)
    >>> bpe_pipeline.verify("runs/a")["merges"]
    '3; the checksum is right'

    Returns:
        What was verified, by name.

    Raises:
        RunDirectoryError: naming the first thing that is wrong.
        UsageError: if the memory limit is too small.
    """
    with checking(InputError, RunDirectoryError):
        from bpe_pipeline.commands.verify import run_verify

        return run_verify(session.options.run, session.options, session.executor, session.listener)


COMMANDS = (info, report, verify)
