"""Commands that use a tokenizer: encode, decode, export."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from os import PathLike
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.commands.declaration import USE, Session, command
from bpe_pipeline.commands.preload import ENCODING
from bpe_pipeline.commands.public.values import parse_tokenizer
from bpe_pipeline.run.keywords import AnyPath, keywords_of
from bpe_pipeline.run.options import EncodeFilesOptions, EncodeOptions, ExportOptions, Values, WorkOptions, flag_of
from bpe_pipeline.run.record import argument, flag
from bpe_pipeline.storage import Location, parse_location

_TOKENIZER = "a tokenizer directory, tokenizer.json, or a run"


# fmt: off
class EncodeCommandOptions(EncodeOptions):
    """What `encode` takes."""

    texts: tuple[str, ...] = flag((), "encode this text instead of files; repeatable", "STRING", flag="--text",
        command_only=True)
    tokenizer: Location = flag(MISSING, _TOKENIZER, "DIR", read=parse_tokenizer, keyword=AnyPath | Any)


class DecodeOptions(Values):
    """What `decode` takes."""

    words: tuple[str, ...] = argument("[ID ...|SHARDS]", "ids or shards", ())
    tokenizer: Location = flag(MISSING, _TOKENIZER, "DIR")
    mask: bool = flag(False, "show chat rows; the trained-on part is between \u27e6 and \u27e7")


class ExportCommandOptions(ExportOptions):
    """What `export` takes."""

    path: Location = argument("RUN|TOKENIZER", "a tokenizer's directory or file, or a run")
    check: bool = flag(False, "load each file in its own library and compare ids; exit code 1 if one differs")
    samples: tuple[Location, ...] = flag((),
        "text to check with, besides edge cases; repeatable; default: a sample of the corpus", "FILE",
        flag="--sample")
# fmt: on


def _check_encode(options: EncodeCommandOptions) -> None:
    numbers = [word for word in options.inputs or () if word.isdecimal() and not Path(word).exists()]
    if options.shuffle and numbers:
        raise UsageError(f"--shuffle is a switch, and {numbers[0]} is no file: give --shuffle --seed {numbers[0]}")
    if options.pack in ("greedy", "neat"):
        raise UsageError(f"--pack {options.pack} is for chat data: use encode-chat, or choose concat, best-fit or none")
    if bool(options.texts) == bool(options.inputs):
        raise UsageError("encode needs either files or --text STRING")
    if re.search("[\ud800-\udfff]", "".join(options.texts)):
        raise UsageError("--text is not valid UTF-8: pipe it into `encode -`, which replaces invalid bytes by U+FFFD")
    if options.output is not None:
        if options.texts:
            raise UsageError("--output is for a corpus: leave out --text, or --output")
        return
    if options.special_tokens_in_text == "refuse":
        raise UsageError("--special-tokens-in-text refuse is for a corpus: give --output, or choose tokens or text")
    of_text = {"inputs", "special_tokens_in_text", *WorkOptions.records}
    if unfit := next((name for name in options.explicit if name not in of_text), None):
        raise UsageError(f"{flag_of(unfit)} is for a corpus: give --output, the directory of the shards")


def _in_order(given: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse a tokenizer in the place of the inputs."""
    if not isinstance(inputs := given.get("inputs"), str | PathLike | Sequence | None):
        from bpe_pipeline.shards.plan import refuse_swapped

        refuse_swapped(inputs, "encode(inputs, tokenizer, output)")
    return {**given}


def _has_output(options: EncodeCommandOptions) -> bool:
    return options.output is not None


def _encoded() -> Any:
    from bpe_pipeline.shards.encoded_corpus import EncodedCorpus
    from bpe_pipeline.shards.in_memory import EncodedFiles

    def encoded(done: Any) -> EncodedCorpus | EncodedFiles:
        return done if isinstance(done, EncodedFiles) else done.corpus

    return encoded


def _in_memory(options: EncodeCommandOptions) -> Any:
    """Encode a corpus in memory: what `encode` returns to a program that names no output."""
    from bpe_pipeline.shards.in_memory import encode_in_memory
    from bpe_pipeline.shards.plan import model_of

    inputs = options.inputs or ()
    if of_shards := options.explicit.keys() - keywords_of(EncodeFilesOptions).keys():
        raise UsageError(f"option {min(of_shards)!r} is for shards: give output, the directory of these")
    if not inputs or "-" in inputs:
        raise UsageError("encode takes the names of files: give some, and encode standard input with encode_iterable")
    return encode_in_memory(model_of(options.tokenizer, inputs[0] if len(inputs) == 1 else inputs), options)


def _written() -> Any:
    from bpe_pipeline.commands.export import WrittenFiles

    return WrittenFiles


@command(
    group=USE,
    takes=EncodeCommandOptions,
    positional=("inputs", "tokenizer", "output"),
    required=("inputs",),
    returns=_encoded,
    workers=ENCODING,
    works=_has_output,
    settled=_in_order,
)
def encode(session: Session) -> Any:
    """Print the token ids of a text, or encode a corpus into shards.

    Without --output, print the ids of INPUTs (`-`: standard input) or of --text, a line each. With it, INPUT is a
    corpus as for `train`.

    \b
    bpe-pipeline encode --tokenizer runs/a --text 'Hello world'
    bpe-pipeline encode corpus --tokenizer runs/a --output shards --shard-format bin

    A directory that holds some of these shards is completed; one that holds others is refused.

    >>> encoded = bpe_pipeline.encode("corpus", tokenizer, "shards", shard_format="bin", workers=1)
    >>> encoded.documents, encoded.tokens, encoded.shards[0].name
    (2, 5, 'shard-00000.bin')

    Without `output`, the same ids are encoded in memory by threads, document by document: 2 or 4 bytes per id and up to
    an eighth more, 8 bytes per document, and limited memory for the work.

    >>> encoded = bpe_pipeline.encode("corpus", tokenizer)
    >>> encoded.ids.tolist()
    [257, 258, 259, 257, 259]
    >>> [tokenizer.decode(document) for document in encoded]
    ['lower<|endoftext|>', 'low<|endoftext|>']

    Returns:
        What `shards.json` says: format, tokens, documents, shards with CRC-32. Without `output` the ids, where
        documents end, and what was skipped or altered.

    Raises:
        UsageError: an option is unknown, wrong or means nothing for encoding, or the memory limit is too small.
        InputError: a file is missing, damaged or empty; with `errors="strict"`, or `fail_on_loss`, invalid text.
        RunDirectoryError: the directory holds something else, is in use, or cannot be written.
        TrainingError: a pre-token exceeds the memory budget.
    """
    options = session.options
    if not session.in_python:
        _check_encode(options)
    if options.output is None:
        if session.in_python:
            return _in_memory(options)
        from bpe_pipeline.commands.encode_text import encode_texts

        paths = [parse_location(name) for name in options.inputs or ()]
        as_text = options.special_tokens_in_text == "text"
        return encode_texts(options.tokenizer, paths, options.texts, session.listener, as_text=as_text)
    from bpe_pipeline.commands.encode import encode_with

    return encode_with(options.tokenizer, options, session.executor, session.listener)


@command(group=USE, takes=DecodeOptions, python="")
def decode(session: Session) -> Any:
    """Print the text of token IDs or of SHARDS.

    Without any, IDs are read from standard input. SHARDS is what `encode --output` wrote: a directory, or one or
    several of the shards in it.

    \b
    bpe-pipeline decode --tokenizer runs/a 15496 995
    bpe-pipeline decode --tokenizer runs/a shards
    bpe-pipeline decode --tokenizer runs/a --mask sft | head
    """
    from bpe_pipeline.commands.encode_text import decode_words

    return decode_words(session.options.tokenizer, session.options.words, mask=session.options.mask)


@command(group=USE, takes=ExportCommandOptions, returns=_written)
def export(session: Session) -> Any:
    """Write a tokenizer's files for other runtimes.

    The formats are those of Hugging Face, GPT-2 tools, tiktoken and llama.cpp; --check loads them there.

    \b
    bpe-pipeline export runs/a --export hf,tiktoken --check

    >>> exported = bpe_pipeline.export("my-tokenizer", output="exported", export=["gpt2"], check=True)
    >>> sorted(path.name for path in exported.written)
    ['merges.txt', 'vocab.json']
    >>> exported.checks[0].outcome
    'same'

    Returns:
        The paths `written`, `notes` and `checks`.

    Raises:
        ExportRefusedError: a format cannot express the tokenizer, or a check found a difference.
        UsageError: an option does not fit the tokenizer, or a library is not installed.
        InputError: the tokenizer cannot be read.
    """
    from bpe_pipeline.base.events import Notice
    from bpe_pipeline.commands.export import run_export

    options = session.options
    if options.samples and not options.check:
        raise UsageError("--sample is for --check: give both")
    exported = run_export(options.path, options, options.samples if options.check else None)
    for note in exported.notes:
        session.listener(Notice("info", note))
    return exported


COMMANDS = (encode, decode, export)
