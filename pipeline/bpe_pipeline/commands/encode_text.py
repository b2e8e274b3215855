"""The story of `encode` and `decode` on standard output: text or files to ids, and ids or shards back to text."""

import errno
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import InputError, UsageError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.commands.named_tokenizer import used_of
from bpe_pipeline.reports.result import Result
from bpe_pipeline.run.extensions import maker_of
from bpe_pipeline.shards.read import decode, shards_of
from bpe_pipeline.storage import Location, parse_location
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

_SHOWN = 60  # characters of what was typed, in a message


@dataclass(frozen=True)
class Streamed(Result):
    """What is printed while it is made: lines of ids, or bytes of texts. name: of all of it as JSON."""

    name: str
    values: Iterable[Any]

    def printed(self, *, quiet: bool) -> Iterator[str | bytes]:
        """Yield each value when it is made; a terminal gets a line end after bytes that have none."""
        del quiet
        last = b"\n"
        for value in self.values:
            if isinstance(value, bytes):
                last = value or last
            yield value if isinstance(value, bytes) else " ".join(map(str, value))
        if sys.stdout.isatty() and not last.endswith(b"\n"):
            yield b"\n"

    def to_json(self) -> dict[str, Any]:
        """Return all of it."""
        values = list(self.values)
        is_text = self.name == "text"
        return {self.name: b"".join(values).decode(errors="replace") if is_text else values}


def encode_texts(
    tokenizer_path: Location, paths: Sequence[Location], texts: Sequence[str], listener: Listener, *, as_text: bool
) -> Streamed:
    """Return the ids of each text or else of each file. as_text: encode the special tokens in them as text."""
    used, others = used_of(tokenizer_path)
    if others:
        listener(Notice("info", f"with {used}; next to it are {', '.join(others)}: name one to use it"))
    tokenizer = Tokenizer.load(tokenizer_path)
    encode = tokenizer.encode_ordinary if as_text else tokenizer.encode
    return Streamed("ids", map(encode, texts or map(_read, paths)))


def decode_words(tokenizer_path: Location, words: Sequence[str], *, mask: bool) -> Streamed:
    """Return the text of ids, or of shards; mask: of their rows, with marks around what is trained on.

    Without words, ids are read from standard input.
    """
    ids = " ".join(words).split()  # also of quoted ones: "1 2 3"
    of_ids = not words or (ids and ids[0].lstrip("+-").isdigit())
    if mask and of_ids:
        raise UsageError("--mask shows rows of chat data: name the directory that encode-chat wrote, or a shard of it")
    paths = [] if of_ids else list(map(parse_location, words))
    tokenizer = Tokenizer.load(tokenizer_path)
    if of_ids:
        numbers = map(_id_of, ids if words else _read(Path("-"), "backslashreplace").split())
        return Streamed("text", [tokenizer.decode_bytes(list(numbers))])
    texts = (text for path in paths for text in decode(path, tokenizer))
    return Streamed("text", _marked_rows(tokenizer, paths) if mask else texts)


def _id_of(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise InputError(
            f"{word[:80]!r} is not a token id; decode takes whole numbers, as encode prints them"
        ) from None


def _marked_rows(tokenizer: Tokenizer, paths: Sequence[Location]) -> Iterator[bytes]:
    """Return the rows of shards as the extension that made them shows them, numbered.

    Raises `InputError` as `decode` does, and `UsageError` for shards without labels.
    """
    texts: list[Iterator[bytes]] = []
    for path in paths:
        directory, corpus, shards = shards_of(path, tokenizer)
        if (maker := maker_of(directory, corpus.made_by)) is None:
            raise UsageError(f"{path} has no labels: --mask is for the rows of encode-chat")
        texts += [maker.marked_rows(tokenizer, directory, corpus, shard) for shard in shards]
    return (b"row %d: %b" % (number, text) for number, text in enumerate(chain.from_iterable(texts)))


def _read(path: Location, errors: str = "replace") -> str:
    """Read a file, or standard input for `-`."""
    try:
        if path != Path("-"):
            data = path.read_bytes()
        elif sys.stdin is None:
            raise InputError("standard input is closed: name files, or connect it (`< file`)")
        else:
            data = sys.stdin.buffer.read()
    except OSError as error:
        name = "standard input" if path == Path("-") else path
        if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            text = str(path)
            shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
            raise InputError(f"there is no file {shown!r}; to encode it as text: --text {shlex.quote(shown)}") from None
        raise InputError(f"{name} cannot be read: {error.strerror or error}; name a file with text") from None
    return data.decode("utf-8", errors)
