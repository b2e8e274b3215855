"""Commands that inspect: info, report, sweep, explain, diff, doctor, verify."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.base.errors import InputError, OtherKindError, RunDirectoryError, UsageError
from pipeline.cli.command import (
    Session,
    as_utf8,
    command,
    overwrite_option,
    run_argument,
    run_command,
    tokenizer_option,
)
from pipeline.cli.completion import LOCATION, whole_number
from pipeline.run.make_options import make_options
from pipeline.run.options import RECORDS, CorpusOptions, SweepOptions, WorkOptions, flag_of
from pipeline.storage import Location
from pipeline.storage.atomic import single_output, write_whole

if TYPE_CHECKING:
    from pipeline.reports.result import Result


@contextmanager
def _checking(*wrong: type[Exception]) -> Iterator[None]:
    """Make 3 the exit code where something could not be compared or checked. wrong: errors that say what is wrong."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OtherKindError) or not isinstance(error, (UsageError, *wrong)):
            error.exit_code = 3  # type: ignore[attr-defined]
        raise


@command()
@click.argument("path", type=LOCATION, metavar="RUN|TOKENIZER|SHARDS")
def info(path: Location) -> "Result":
    """Print what a run, a tokenizer or a directory of shards is.

    That is: sizes, special tokens with their ids, pattern, chat template, files, fingerprint.

    \b
    bpe-pipeline info runs/a
    bpe-pipeline info runs/a/tokenizer --json
    """
    from pipeline.commands.info import info as info_of

    return info_of(path)


class Several(click.Option):
    """An option that takes all words up to the next option, once the arguments of the command have begun."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Take more words than one."""
        super().add_to_parser(parser, ctx)
        for name in self.opts:
            option = parser._long_opt[name]
            option.process = partial(self._take, option.process)

    @staticmethod
    def _take(process: Callable[[str, Any], None], value: str, state: Any) -> None:
        process(value, state)
        while state.largs and state.rargs and not state.rargs[0].startswith("-"):
            process(state.rargs.pop(0), state)


@run_command(WorkOptions)
@run_argument
@click.argument("more", nargs=-1, type=LOCATION, metavar="")
@click.option(
    "--compare", cls=Several, multiple=True, type=LOCATION, metavar="[LABEL=]PATH...",
    help="other tokenizers on the same sample: directories, files, runs, SentencePiece .model, or names such as gpt2",
)  # fmt: skip
@click.option(
    "--hidden-size", type=whole_number(1), metavar="N", help="width of the model: also report what its embedding costs"
)
@click.option(
    "--held-out", cls=Several, multiple=True, type=LOCATION, metavar="[NAME=]PATH...",
    help="text that was not trained on: files, directories, globs; files that all have names, such as en=PATH, are the "
    "same text in different languages; default: a sample of the run's corpus",
)  # fmt: skip
@click.option(
    "--output", "-o", type=LOCATION, metavar="FILE",
    help="path of the page, with its numbers next to it as .json; default: the run directory",
)  # fmt: skip
@click.option(
    "--figures", type=LOCATION, metavar="DIR", help="also write each figure as SVG, PDF and CSV, and each table as CSV"
)
@overwrite_option
def report(
    session: Session,
    run_directory: Location,
    more: tuple[Location, ...],
    compare: tuple[Location, ...],
    hidden_size: int | None,
    held_out: tuple[Location, ...],
    output: Location | None,
    figures: Location | None,
    overwrite: bool,
) -> "Result":
    """Make the report of RUN, or of one of its tokenizers, again.

    It is a page, a text and JSON; a tokenizer is named by its directory, such as RUN/tokenizer-8000. Of a directory
    that `extend` or `prune` made, print what changed, and the tokens of the counted text before and after. Of rows of
    `encode-chat`, print how long conversations are, what is cut and learned; --output writes a page of it.

    \b
    bpe-pipeline report runs/a
    bpe-pipeline report runs/a --held-out unseen.txt --compare runs/b gpt2 llama3
    bpe-pipeline report runs/a --held-out en=dev.en sw=dev.sw --compare mine=runs/b --figures figures
    """
    from pipeline.commands.report_again import Extras, run_report

    if more:
        raise UsageError(f"report takes one run: {more[0]} is another argument; to compare with it, use --compare")
    extras = Extras(compare, held_out, hidden_size, output, overwrite, figures)
    return run_report(run_directory, extras, session.options, session.executor, session.listener)


@run_command(SweepOptions)
@click.argument("runs", nargs=-1, type=LOCATION, metavar="RUN ...", required=True)
@click.option(
    "--weight", "weights", multiple=True, metavar="NAME=W[,W...]",
    help="weights to try for the run of this name, the last part of its path: every choice of one for each run is a "
    "mixture; 0 leaves a run out; repeatable  [default: 1]",
)  # fmt: skip
@click.option(
    "--held-out", multiple=True, type=LOCATION, metavar="PATH",
    help="text that was not trained on: files, directories, globs; repeatable; default: what each RUN counted",
)  # fmt: skip
@click.option(
    "--parameters", metavar="N", help="size of the model without embeddings, such as 7B: it says which vocabulary fits"
)
@click.option(
    "--tokens", metavar="N", help="tokens that the model is trained on, such as 2T  [default: its optimum of compute]"
)
@click.option(
    "--hidden-size", metavar="N", help="width of the model, a row of its embedding  [default: usual for --parameters]"
)
@click.option(
    "--figures", type=LOCATION, metavar="DIR", help="also write each figure as SVG, PDF and CSV, and each table as CSV"
)
def sweep(
    session: Session,
    runs: tuple[Location, ...],
    weights: tuple[str, ...],
    held_out: tuple[Location, ...],
    figures: Location | None,
    **model: str | None,
) -> "Result":
    """Measure mixtures of RUNs at several sizes, and recommend one.

    Nothing is counted again. Each mixture is a run of its own in --output, with one merge list for all sizes; a table,
    a page and the tokenizer that is recommended are written next to them. The same command resumes, and one with more
    sizes or weights computes what is new; --overwrite computes all of it again.

    \b
    bpe-pipeline sweep runs/english runs/code --weight code=1,2,4 --vocab-size 8k,32k,128k --output sweep
    bpe-pipeline sweep runs/* --vocab-size 32k,64k --held-out unseen/*.txt --parameters 7B --tokens 2T --output sweep
    """
    from pipeline.guests.sweep.rule import for_model
    from pipeline.guests.sweep.sweep import Design, run_sweep

    files = [one for one in runs if held_out and isinstance(one, Path) and one.is_file()]  # of --held-out *.txt
    runs, held_out = tuple(one for one in runs if one not in files), (*held_out, *files)
    design = Design(runs, weights, held_out, for_model(**model), figures)
    return run_sweep(design, session.given, session.options, session.executor, session.listener)


@command()
@click.argument("text")
@tokenizer_option
@click.option("--html", "page", type=LOCATION, metavar="FILE", help="write a page instead of printing")
@overwrite_option
def explain(text: str, tokenizer: Location, page: Location | None, overwrite: bool) -> "Result":
    """Print why TEXT has its ids.

    That is: its pieces, the merges of each in order, and why two neighbours did not merge. The counts of the merges are
    those of the run, where the tokenizer is stored in one.

    \b
    bpe-pipeline explain --tokenizer runs/a 'Hello world'
    bpe-pipeline explain --tokenizer gpt2/tokenizer.json 'Hello world' --html hello.html
    """
    from pipeline.guests.inspect import explain as story
    from pipeline.reports.result import Facts

    if page is None:
        if overwrite:
            raise UsageError("--overwrite is for --html FILE: give both, or leave it out")
        return story.explain(as_utf8(text), tokenizer)
    page = single_output(page, overwrite=overwrite)
    write_whole(page, story.page(story.explain(as_utf8(text), tokenizer), str(tokenizer)))
    return Facts({"page": str(page)})


@command()
@click.argument("first", type=LOCATION, metavar="A")
@click.argument("second", type=LOCATION, metavar="B")
@click.argument("paths", nargs=-1, type=LOCATION, metavar="[INPUT ...]")
@click.option("--exclude", multiple=True, metavar="GLOB", help=RECORDS["exclude"].help)
@click.option("--text", "texts", multiple=True, metavar="STRING", help="compare on this text; repeatable")
def diff(
    first: Location,
    second: Location,
    paths: tuple[Location, ...],
    exclude: tuple[str, ...],
    texts: tuple[str, ...],
) -> "Result":
    """Print how the tokenizers A and B differ.

    The exit code is 0 if they are equal, 1 if they differ, 3 if they could not be compared. Printed are tokens that
    only one has, ids and ranks that moved, settings, and the texts that are cut differently, with the bytes per token
    of both. Texts are samples of INPUTs and those of --text; without any, built-in sentences in several languages.

    \b
    bpe-pipeline diff runs/a runs/b
    bpe-pipeline diff runs/a gpt2/tokenizer.json unseen/*.txt --json
    """
    from pipeline.guests.inspect.diff import diff as compare

    exclude = make_options(CorpusOptions, {"exclude": exclude or None}, flag_of).exclude or ()
    with _checking():
        return compare(first, second, list(paths) or None, texts=list(map(as_utf8, texts)), exclude=exclude or None)


@command()
@click.argument("tokenizer", type=LOCATION, metavar="TOKENIZER")
@click.option(
    "--sample", "samples", multiple=True, type=LOCATION, metavar="FILE",
    help="text to compare runtimes on, besides hard strings; repeatable; default: a sample of the run's corpus",
)  # fmt: skip
@click.option(
    "--counts", type=LOCATION, metavar="RUN",
    help="the run whose counts say which tokens are used; default: the tokenizer's own",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="advice makes the exit code 1, too, and what is not checked 3")
def doctor(tokenizer: Location, samples: tuple[Location, ...], counts: Location | None, strict: bool) -> "Result":
    """Print what is wrong with a tokenizer, each with a remedy.

    The exit code is 1 if anything is, 3 if nothing could be checked. TOKENIZER is a directory or file, of this package
    or another's. Its files are compared with each other and, id by id, in each installed library that reads them;
    tokens, special tokens, settings and round trips are checked.

    \b
    bpe-pipeline doctor runs/a/tokenizer
    bpe-pipeline doctor downloaded/model --sample unseen.txt --json
    """
    from pipeline.guests.inspect.doctor import doctor as examine

    with _checking():
        return replace(examine(tokenizer, list(samples) or None, counts=counts), strict=strict)


@run_command(WorkOptions)
@run_argument
def verify(session: Session, run_directory: Location) -> "Result":
    """Check everything in RUN.

    That is: checksums, sums of counts, each merge by a second method, the tokenizers' files. The exit code is 1 if
    something is wrong, 3 if it could not be checked.

    \b
    bpe-pipeline verify runs/a
    """
    from pipeline.commands.verify import run_verify

    with _checking(InputError, RunDirectoryError):
        return run_verify(run_directory, session.options, session.executor, session.listener)
