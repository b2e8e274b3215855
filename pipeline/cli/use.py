"""Commands that use a tokenizer: encode, decode, export."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.base.errors import ExportRefusedError, UsageError
from pipeline.cli.command import Request, Session, as_json, as_utf8, carry_out, command, inputs, show, tokenizer_option
from pipeline.cli.completion import LOCATION, PATH_TEXT
from pipeline.cli.help import Flag
from pipeline.run.options import EncodeOptions, ExportOptions, WorkOptions, flag_of
from pipeline.storage import Location

if TYPE_CHECKING:
    from pipeline.reports.result import Result


@command(EncodeOptions)
@inputs
@click.option("--text", "texts", multiple=True, metavar="STRING", help="encode this text instead of files; repeatable")
@tokenizer_option
@click.option(
    "--ordinary", is_flag=True, cls=Flag, advanced=True, help="encode special tokens in the text as plain text"
)
def encode(request: Request, texts: tuple[str, ...], tokenizer: Location, ordinary: bool) -> "Result | None":
    """Print the token ids of a text, or encode a corpus into shards.

    Without --output, print the ids of INPUTs (`-`: standard input) or of --text, a line each. A corpus is files,
    directories, globs, URIs, as for `train`. --output is the directory of the shards.

    \b
    bpe-pipeline encode --tokenizer runs/a --text 'Hello world'
    bpe-pipeline encode corpus --tokenizer runs/a --output shards --shard-format bin
    """
    options = request.options
    numbers = [word for word in options.inputs or () if word.isdecimal() and not Path(word).exists()]
    if options.shuffle and numbers:
        raise UsageError(f"--shuffle is a switch, and {numbers[0]} is no file: give --shuffle --seed {numbers[0]}")
    if options.pack in ("greedy", "neat"):
        raise UsageError(f"--pack {options.pack} is for chat data: use encode-chat, or choose concat, best-fit or none")
    if bool(texts) == bool(options.inputs):
        raise UsageError("encode needs either files or --text STRING")
    texts = tuple(map(as_utf8, texts))
    if re.search("[\ud800-\udfff]", "".join(texts)):
        raise UsageError("--text is not valid UTF-8: pipe it into `encode -`, which replaces invalid bytes by U+FFFD")
    if options.output is None:
        of_text = {"inputs", *(one.name for one in fields(WorkOptions))}
        if unfit := next((name for name in request.given if name not in of_text), None):
            raise UsageError(f"{flag_of(unfit)} is for a corpus: give --output, the directory of the shards")
        from pipeline.commands.encode_text import encode_texts
        from pipeline.reports.progress import write
        from pipeline.reports.result import Facts

        paths = [LOCATION.convert(name, None, None) for name in options.inputs or ()]
        found = encode_texts(tokenizer, paths, texts, ordinary=ordinary)
        if as_json():
            return Facts({"ids": list(found)})
        for ids in found:
            write(" ".join(map(str, ids)))
    elif texts or ordinary:
        raise UsageError("--output is for a corpus: leave out --text and --ordinary, or --output")
    else:
        from pipeline.run.workers import ENCODING, executor_for

        def encode_corpus(session: Session) -> "Result":
            from pipeline.commands.encode import run_encode
            from pipeline.tokenizer.formats.files import load_model

            summary = run_encode(session.options, load_model(tokenizer), session.executor, session.listener)
            return replace(summary, tokenizer=tokenizer)

        carry_out(request, encode_corpus, lambda options: executor_for(options, ENCODING))
    return None


@command()
@click.argument("words", nargs=-1, metavar="[ID ...|SHARDS]", type=PATH_TEXT)
@tokenizer_option
@click.option(
    "--mask", is_flag=True, help="of SHARDS of chat data: rows with what is learned between \u27e6 and \u27e7"
)
def decode(words: tuple[str, ...], tokenizer: Location, mask: bool) -> "Result | None":
    """Print the text of token IDs or of SHARDS.

    Without any, IDs are read from standard input. SHARDS is what `encode --output` wrote: a directory, or one or
    several of the shards in it.

    \b
    bpe-pipeline decode --tokenizer runs/a 15496 995
    bpe-pipeline decode --tokenizer runs/a shards
    bpe-pipeline decode --tokenizer runs/a --mask sft | head
    """
    from pipeline.commands.encode_text import decode_ids, print_bytes, texts_of_shards
    from pipeline.reports.result import Facts

    ids = " ".join(words).split()  # also of quoted ones: "1 2 3"
    if words and not (ids and ids[0].lstrip("+-").isdigit()):
        paths, texts_of = [LOCATION.convert(word, None, None) for word in words], texts_of_shards
        if mask:
            from pipeline.commands.encode_text import marked_rows as texts_of
        texts = texts_of(tokenizer, paths)
    elif mask:
        raise UsageError("--mask shows rows of chat data: name the directory that encode-chat wrote, or a shard of it")
    else:
        texts = iter([decode_ids(tokenizer, ids)])
    if as_json():
        return Facts({"text": b"".join(texts).decode(errors="replace")})
    print_bytes(texts)
    return None


@command(ExportOptions)
@click.argument("tokenizer", type=LOCATION, metavar="RUN|TOKENIZER")
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
def export(
    request: Request,
    tokenizer: Location,
    push_to_hub: str | None,
    check: bool,
    samples: tuple[Location, ...],
) -> "Result | None":
    """Write a tokenizer's files for other runtimes.

    The formats are those of Hugging Face, GPT-2 tools and tiktoken; --check loads them there.

    \b
    bpe-pipeline export runs/a --export hf,tiktoken --check
    """
    from pipeline.reports import progress

    if samples and not check:
        raise UsageError("--sample is for --check: give both")
    from pipeline.commands.export import run_export

    exported = run_export(tokenizer, request.options, samples if check else None, push_to_hub)
    for note in () if request.options.quiet else exported.notes:
        progress.write_error(note)
    if exported.failure:
        show(exported)
        raise ExportRefusedError(exported.failure)
    return exported
