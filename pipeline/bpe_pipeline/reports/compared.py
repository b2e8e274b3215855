"""Other tokenizers to compare with: ours, SentencePiece's `.model` files, and well-known ones in caches of transformers
and tiktoken.

Nothing is downloaded. Of some well-known tokenizers that are in no cache, references.json has the tokens of the
report's sentences; any other name that is not in its cache is an error that says how to put it there.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from bpe_pipeline.base.errors import InputError, RunDirectoryError
from bpe_pipeline.merges.vocabulary import Vocabulary
from bpe_pipeline.reports.numbers import REFERENCES
from bpe_pipeline.reports.numbers_worker import measured_model
from bpe_pipeline.reports.record import MeasuredTokenizer
from bpe_pipeline.run.ids import Roles
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.formats.rank_lists import is_rank_file

KNOWN = {
    "gpt2": "openai-community/gpt2",
    "qwen": "Qwen/Qwen2-7B",
    "qwen2": "Qwen/Qwen2-7B",
    "llama3": "meta-llama/Meta-Llama-3-8B",
}
OF_TIKTOKEN = {"cl100k": "cl100k_base", "gpt-4": "cl100k_base", "o200k": "o200k_base", "gpt-4o": "o200k_base"}
_STORE = "https://openaipublic.blob.core.windows.net/encodings"
_SAME_VOCABULARY = {"qwen2": "qwen", "gpt-4": "cl100k", "gpt-4o": "o200k"}


def cached(name: str) -> Path:
    """Return the file of a well-known name in the cache of tiktoken, or of OWNER/MODEL in that of transformers."""
    encoding = OF_TIKTOKEN.get(name, name)
    if encoding in OF_TIKTOKEN.values():
        file = _tiktoken_file(encoding)
        if file.is_file():
            return file
        raise InputError(
            f"{name} is no path, and {encoding} is not in the cache of tiktoken ({file.parent}): "
            f"load it once with tiktoken.get_encoding({encoding!r}), or give a path"
        )
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise InputError(f"{name} does not exist")
    return _file_of_transformers(name, KNOWN.get(name, name))


def cached_or_reference(name: str) -> Path | str:
    """Return the file of a name in a cache, or the name of its reference; InputError if there is neither."""
    try:
        return cached(name)
    except InputError:
        reference = _SAME_VOCABULARY.get(name, name)
        if reference not in REFERENCES:
            raise
        return reference


def _file_of_transformers(name: str, model: str) -> Path:
    """Return tokenizer.json of a model in the cache of transformers; InputError if it is not there."""
    remedy = f"load it once with transformers.AutoTokenizer.from_pretrained({model!r}), or give a path"
    if "/" not in model:
        remedy += f" or one of {', '.join([*KNOWN, *OF_TIKTOKEN])}"
    try:
        find = import_module("huggingface_hub").try_to_load_from_cache
    except ImportError:
        raise InputError(f"{name} does not exist; to find it in the cache of transformers, install that") from None
    try:
        file = find(model, "tokenizer.json")
    except ValueError:  # no name of a model
        file = None
    if not isinstance(file, str):
        raise InputError(f"{name} is no path, and {model} is not in the cache of transformers: {remedy}")
    return Path(file)


def _tiktoken_file(encoding: str) -> Path:
    """Return where tiktoken keeps an encoding: a file named by the SHA-1 of the address that it came from."""
    named = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    directory = Path(tempfile.gettempdir()) / "data-gym-cache" if named is None else Path(named)
    return directory / hashlib.sha1(f"{_STORE}/{encoding}.tiktoken".encode(), usedforsecurity=False).hexdigest()


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
    for encoding in set(OF_TIKTOKEN.values()):
        if path == _tiktoken_file(encoding):
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
