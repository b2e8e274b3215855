"""The story of `encode` and `decode`: text or files to ids on standard output, and ids back to text."""

import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import InputError, StorageError
from pipeline.report import progress
from pipeline.storage import Location, RemoteError, exists
from pipeline.tokenizer.formats.load import load_model
from pipeline.tokenizer.model import Model
from pipeline.tokenizer.tokenizer import Tokenizer

_STANDARD_INPUT = Path("-")


def tokenizer_home(path: Location) -> Location:
    """The tokenizer directory that a path names: itself, the one of a run directory, or the one of a tokenizer.json."""
    nested = path / "tokenizer"
    if exists(nested / "tokenizer.json"):
        return nested
    try:
        return path.parent if path.is_file() else path
    except RemoteError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from None


def load_tokenizer(path: Location) -> Tokenizer:
    """The tokenizer in a tokenizer.json, a tokenizer directory, or a run directory."""
    return Tokenizer.from_model(load_named_model(path))


def load_named_model(path: Location) -> Model:
    """The same as a value, without the encoder that a tokenizer builds at once."""
    try:
        return load_model(path if path.is_file() else tokenizer_home(path))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}; give a tokenizer directory, tokenizer.json, or a run "
            "that you may read"
        ) from None


def encode_command(tokenizer_path: Location, paths: Sequence[Location], text: str | None, *, ordinary: bool) -> None:
    """Print the ids of the text, or of each file, on a line of their own."""
    tokenizer = load_tokenizer(tokenizer_path)
    encode = tokenizer.encode_ordinary if ordinary else tokenizer.encode
    texts = [text] if text is not None else map(_read, paths)
    for one in texts:
        progress.write(" ".join(map(str, encode(one))))


def decode_command(tokenizer_path: Location, words: Sequence[str]) -> None:
    """Print the text of the ids given as words, or on standard input, byte for byte and without a line end added."""
    tokenizer = load_tokenizer(tokenizer_path)
    if not words:
        words = _read_standard_input().decode("utf-8", errors="backslashreplace").split()
    ids = []
    for word in words:
        try:
            ids.append(int(word))
        except ValueError:
            raise InputError(
                f"{word[:80]!r} is not a token id; decode takes whole numbers, as encode prints them"
            ) from None
    progress.write_bytes(tokenizer.decode_bytes(ids))


def decode_shards_command(tokenizer_path: Location, paths: Sequence[Location]) -> None:
    """Print the text of shards, byte for byte."""
    from pipeline.shards.decode import decode_shards

    tokenizer = load_tokenizer(tokenizer_path)
    for path in paths:
        for text in decode_shards(path, tokenizer):
            progress.write_bytes(text)


def _read_standard_input() -> bytes:
    if sys.stdin is None:
        raise InputError("standard input is closed: name files, or connect it (`< file`)")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror or error}; name files instead") from None


def _read(path: Location) -> str:
    try:
        data = _read_standard_input() if path == _STANDARD_INPUT else path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; give a file with text") from None
    return data.decode("utf-8", errors="replace")
