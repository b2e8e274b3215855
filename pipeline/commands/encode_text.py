"""The story of `encode` and `decode` on standard output: text or files to ids, and ids or shards back to text."""

import errno
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from pipeline.base.errors import InputError, UsageError
from pipeline.reports import progress
from pipeline.run.guests import maker_of
from pipeline.shards.decode import decode_shards, shards_of
from pipeline.storage import Location
from pipeline.tokenizer.tokenizer import Tokenizer

_SHOWN = 60  # characters of what was typed, in a message


def encode_texts(
    tokenizer_path: Location, paths: Sequence[Location], texts: Sequence[str], *, ordinary: bool
) -> Iterable[list[int]]:
    """Return the ids of each text or else of each file."""
    tokenizer = Tokenizer.load(tokenizer_path)
    return map(tokenizer.encode_ordinary if ordinary else tokenizer.encode, texts or map(_read, paths))


def decode_ids(tokenizer_path: Location, words: Sequence[str]) -> bytes:
    """Return the text of ids, given as words or on standard input."""
    tokenizer = Tokenizer.load(tokenizer_path)
    ids = []
    for word in words or _read(Path("-"), "backslashreplace").split():
        try:
            ids.append(int(word))
        except ValueError:
            raise InputError(
                f"{word[:80]!r} is not a token id; decode takes whole numbers, as encode prints them"
            ) from None
    return tokenizer.decode_bytes(ids)


def texts_of_shards(tokenizer_path: Location, paths: Sequence[Location]) -> Iterator[bytes]:
    """Return the text of shards."""
    tokenizer = Tokenizer.load(tokenizer_path)
    return (text for path in paths for text in decode_shards(path, tokenizer))


def marked_rows(tokenizer_path: Location, paths: Sequence[Location]) -> Iterator[bytes]:
    """Return the rows of shards as the guest that made them shows them, numbered.

    Raises `InputError` as `decode_shards` does, and `UsageError` for shards without labels.
    """
    tokenizer = Tokenizer.load(tokenizer_path)
    texts: list[Iterator[bytes]] = []
    for path in paths:
        directory, corpus, shards = shards_of(path, tokenizer)
        if (maker := maker_of(directory, corpus.made_by)) is None:
            raise UsageError(f"{path} has no labels: --mask is for the rows of encode-chat")
        texts += [maker.marked_rows(tokenizer, directory, corpus, shard) for shard in shards]
    return (b"row %d: %b" % (number, text) for number, text in enumerate(chain.from_iterable(texts)))


def print_bytes(texts: Iterable[bytes]) -> None:
    """Print texts byte for byte; a terminal gets a line end after them if they have none."""
    last = b""
    for text in texts:
        progress.write(text)
        last = text or last
    if sys.stdout.isatty() and not last.endswith(b"\n"):
        progress.write(b"\n")


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
