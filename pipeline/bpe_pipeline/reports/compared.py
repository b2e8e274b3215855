"""Other tokenizers to compare with: ours, SentencePiece's `.model` files, and well-known ones in caches.

Of some well-known tokenizers that are in no cache, references.json has the tokens of the report's sentences.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import InputError, RunDirectoryError
from bpe_pipeline.base.events import Listener, Notice
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.reports.numbers import REFERENCES
from bpe_pipeline.reports.numbers_worker import measured_model
from bpe_pipeline.reports.record import MeasuredTokenizer
from bpe_pipeline.run.ids import Roles
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.formats.rank_lists import is_rank_file
from bpe_pipeline.tokenizer.formats.well_known import cached, encoding_of

_SAME_VOCABULARY = {"qwen2": "qwen", "gpt-4": "cl100k", "gpt-4o": "o200k"}


def cached_or_reference(name: str, listener: Listener) -> Path | str:
    """Return the file of a name in a cache, or the name of its reference, with a warning; InputError for neither."""
    try:
        return cached(name)
    except InputError as reason:
        reference = _SAME_VOCABULARY.get(name, name)
        if reference not in REFERENCES:
            raise
        listener(Notice("warning", f"{reason}; the report compares its own sentences with {name}, and no other text"))
        return reference


def written_roles(home: Location, vocabulary: Vocabulary) -> Roles:
    """Return the roles that a tokenizer's files say; `RunDirectoryError` for files with another vocabulary."""
    written = load_model(home)
    if written.vocabulary != vocabulary:
        raise RunDirectoryError(
            f"{home} is not the tokenizer that the run's options and merges make: bpe-pipeline verify names "
            "the file that differs, and merge writes it again"
        )
    return written.roles


def load_compared(path: Location) -> MeasuredTokenizer:
    """Load a tokenizer, a SentencePiece model by its suffix or tiktoken's by its name; InputError if it cannot."""
    if (encoding := encoding_of(path)) is not None:
        return _load_encoding(encoding)
    if path.suffix != ".model" or is_rank_file(path):
        return measured_model(load_model(path))
    processor = _package("sentencepiece", path).SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(path.read_bytes())
    except (OSError, RuntimeError) as reason:
        raise InputError(f"{path} is not a SentencePiece model: {reason}") from None
    vocab = {}
    for id_ in range(processor.GetPieceSize()):
        pre_token = processor.IdToPiece(id_)
        vocab[id_] = (
            bytes([int(pre_token[3:5], 16)]) if processor.IsByte(id_) else pre_token.replace("\u2581", " ").encode()
        )
    return MeasuredTokenizer(_whole(processor.EncodeAsIds), vocab, len(vocab), processor.DecodeIds)


def _package(name: str, what: object) -> Any:
    """Import the package that reads something; InputError if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{what} is read with the {name} package: pip install {name}") from None


def _whole(encode: Callable[[str], list[int]]) -> Callable[[str], Iterable[tuple[list[int], bytes]]]:
    """Return the stretches of a tokenizer that finds no special tokens in text: all of it is one."""
    return lambda text: [(encode(text), text.encode())]


def _load_encoding(name: str) -> MeasuredTokenizer:
    """Load an encoding of tiktoken whose file is in its cache, so that nothing is downloaded."""
    try:
        encoding = _package("tiktoken", name).get_encoding(name)
    except (ValueError, OSError) as reason:  # a damaged file would be fetched again
        raise InputError(f"{name} cannot be read from the cache of tiktoken: {reason}") from None
    vocab = {encoding.encode_single_token(one): one for one in encoding.token_byte_values()}
    return MeasuredTokenizer(_whole(encoding.encode_ordinary), vocab, encoding.n_vocab, encoding.decode)
