"""Commands that use a tokenizer: encode, decode, export."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pipeline.base.errors import ExportRefusedError, UsageError
from pipeline.base.printable import printable
from pipeline.cli.command import (
    Request,
    Session,
    as_utf8,
    carry_out,
    command,
    inputs,
    overwrite_option,
    show,
    tokenizer_option,
)
from pipeline.cli.completion import LOCATION, PATH_TEXT
from pipeline.cli.help import Flag
from pipeline.run.options import flag_of, options_of
from pipeline.storage import Location

if TYPE_CHECKING:
    from pipeline.reports.result import Result


@command(takes=("encode", "encode-chat"))
@inputs
@click.option("--text", "texts", multiple=True, metavar="STRING", help="encode this text instead of files; repeatable")
@tokenizer_option
@click.option(
    "--ordinary", is_flag=True, cls=Flag, advanced=True, help="encode special tokens in the text as plain text"
)
def encode(request: Request, texts: tuple[str, ...], tokenizer: Location, ordinary: bool) -> None:
    """Print the token ids of a text, or encode a corpus into shards.

    Without --output, print the ids of INPUTs (`-`: standard input) or of --text, a line each. A corpus is files,
    directories, globs, URIs, as for `train`. --output is the directory of the shards.

    \b
    bpe-pipeline encode --tokenizer runs/a --text 'Hello world'
    bpe-pipeline encode corpus --tokenizer runs/a --output shards --shard-format bin
    bpe-pipeline encode data.jsonl --chat --template llama3 --tokenizer runs/a --pack neat --output sft
    """
    options = request.options
    is_chat = options.chat or options.dataset_info is not None
    fit, other = map(options_of, ("encode-chat", "encode") if is_chat else ("encode", "encode-chat"))
    if given := [name for name in request.given if name in other and name not in fit]:
        whose = "means nothing for chat data" if is_chat else "is for chat data: give --chat, or --dataset-info"
        raise UsageError(f"{flag_of(given[0])} {whose}")
    if not is_chat and options.pack in ("greedy", "neat"):
        raise UsageError(f"--pack {options.pack} is for chat data: give --chat, or choose concat, best-fit or none")
    if not is_chat and bool(texts) == bool(options.inputs):
        raise UsageError("encode needs either files or --text STRING")
    texts = tuple(map(as_utf8, texts))
    if re.search("[\ud800-\udfff]", "".join(texts)):
        raise UsageError("--text is not valid UTF-8: pipe it into `encode -`, which replaces invalid bytes by U+FFFD")
    if options.output is None:
        unfit = next((name for name in request.given if name not in options_of("encode-text")), None)
        if unfit is not None:
            raise UsageError(f"{flag_of(unfit)} is for a corpus: give --output, the directory of the shards")
        from pipeline.commands.encode_text import encode_command

        encode_command(
            tokenizer, [LOCATION.convert(name, None, None) for name in options.inputs or ()], texts, ordinary=ordinary
        )
    elif texts or ordinary:
        raise UsageError("--output is for a corpus: leave out --text and --ordinary, or --output")
    else:
        from pipeline.run.workers import CHAT, ENCODING, executor_for

        def encode_corpus(session: Session) -> "Result":
            from pipeline.tokenizer.formats.load import load_model

            options = session.options
            if is_chat:
                from pipeline.guests.chat.encode_chat import run_encode_chat as run

                if "shard_format" not in session.given:
                    options = replace(options, shard_format="arrow")
            else:
                from pipeline.commands.encode import run_encode as run
            summary = run(options, load_model(tokenizer), session.executor, session.listener)
            return replace(summary, tokenizer=tokenizer)

        carry_out(request, encode_corpus, lambda options: executor_for(options, CHAT if is_chat else ENCODING))


@command()
@click.argument("words", nargs=-1, metavar="[ID ...|SHARDS]", type=PATH_TEXT)
@tokenizer_option
def decode(words: tuple[str, ...], tokenizer: Location) -> None:
    """Print the text of token IDs or of SHARDS.

    Without any, IDs are read from standard input. SHARDS is what `encode --output` wrote: a directory, or one or
    several of the shards in it.

    \b
    bpe-pipeline decode --tokenizer runs/a 15496 995
    bpe-pipeline decode --tokenizer runs/a shards
    """
    from pipeline.commands.encode_text import decode_command, decode_shards_command

    ids = " ".join(words).split()  # also of quoted ones: "1 2 3"
    if words and not (ids and ids[0].lstrip("+-").isdigit()):
        decode_shards_command(tokenizer, [LOCATION.convert(word, None, None) for word in words])
    else:
        decode_command(tokenizer, ids)


@command()
@click.argument("tokenizer", type=LOCATION, metavar="RUN|TOKENIZER")
@click.option(
    "--output", "-o", type=LOCATION, metavar="DIR", help="where to write; default: the tokenizer's own directory"
)
@click.option(
    "--check", is_flag=True, help="load each file in its own library and compare ids; exit code 1 if one differs"
)
@click.option(
    "--sample", "samples", multiple=True, type=LOCATION, metavar="FILE",
    help="text to check with, besides hard strings; repeatable; default: a sample of the run's corpus",
)  # fmt: skip
@click.option(
    "--push-to-hub", metavar="OWNER/NAME",
    help="upload the files of transformers and the model card to this repository, made if it is missing",
)  # fmt: skip
@click.option("--counts", type=LOCATION, metavar="FILE", help="write the run's piece counts instead: .tsv or .parquet")
@click.option("--memory-limit", metavar="SIZE", help="for writing piece counts, for all processes together")
@overwrite_option
def export(
    request: Request,
    tokenizer: Location,
    output: Location | None,
    push_to_hub: str | None,
    check: bool,
    samples: tuple[Location, ...],
    counts: Location | None,
    memory_limit: str | None,
    overwrite: bool,
) -> "Result | None":
    """Write a tokenizer's files for other runtimes, or a run's counts.

    The formats are those of Hugging Face, GPT-2 tools and tiktoken; --check loads them there. Each count is a line
    `piece<TAB>count`, the most frequent first; `import` reads them back exactly.

    \b
    bpe-pipeline export runs/a --export hf,tiktoken --check
    bpe-pipeline export runs/a --counts counts.tsv
    """
    from pipeline.reports import progress

    if counts is not None:
        if check or samples or push_to_hub or output or request.given:
            raise UsageError(
                "--counts writes piece counts, not a tokenizer; leave out --output, --export, --check, "
                "--sample, --push-to-hub and what is said of tokens"
            )
        if counts.suffix not in (".tsv", ".parquet"):
            raise UsageError(f"--counts {counts}: the name must end in .tsv or .parquet, which says the format")
        from pipeline.commands.export_counts import export_counts

        export_counts(tokenizer, counts, memory_limit=memory_limit, overwrite=overwrite)
        progress.write(printable(counts))
        return None
    if memory_limit is not None or overwrite:
        only = "--overwrite" if memory_limit is None else "--memory-limit"
        raise UsageError(f"{only} is for piece counts: give --counts FILE too, or leave it out")
    if samples and not check:
        raise UsageError("--sample is for --check: give both")
    from pipeline.commands.export import run_export

    exported = run_export(tokenizer, replace(request.options, output=output), samples if check else None, push_to_hub)
    for note in exported.notes:
        progress.write_error(note)
    if exported.failure:
        show(exported)
        raise ExportRefusedError(exported.failure)
    return exported
