"""The story of `encode` and `decode`: text or files to ids on standard output, and ids or shards back to text."""

import errno
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline.base.errors import InputError
from pipeline.reports import progress
from pipeline.shards.decode import decode_shards
from pipeline.storage import Location
from pipeline.tokenizer.tokenizer import Tokenizer

_SHOWN = 60  # characters of what was typed, in a message


def encode_command(
    tokenizer_path: Location, paths: Sequence[Location], texts: Sequence[str], *, ordinary: bool
) -> None:
    """Print the ids of each text or else of each file, one line each."""
    tokenizer = Tokenizer.load(tokenizer_path)
    encode = tokenizer.encode_ordinary if ordinary else tokenizer.encode
    for one in texts or map(_read, paths):
        progress.write(" ".join(map(str, encode(one))))


def decode_command(tokenizer_path: Location, words: Sequence[str]) -> None:
    """Print the text of ids, given as words or on standard input, byte for byte."""
    tokenizer = Tokenizer.load(tokenizer_path)
    ids = []
    for word in words or _read(Path("-"), "backslashreplace").split():
        try:
            ids.append(int(word))
        except ValueError:
            raise InputError(
                f"{word[:80]!r} is not a token id; decode takes whole numbers, as encode prints them"
            ) from None
    _print([tokenizer.decode_bytes(ids)])


def decode_shards_command(tokenizer_path: Location, paths: Sequence[Location]) -> None:
    """Print the text of shards, byte for byte."""
    tokenizer = Tokenizer.load(tokenizer_path)
    _print(text for path in paths for text in decode_shards(path, tokenizer))


def _print(texts: Iterable[bytes]) -> None:
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
