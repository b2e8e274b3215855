"""Tokenizers by name: a path, a run, or a well-known one in the cache of transformers or of tiktoken.

Nothing is downloaded. A name that is in no cache is an error that says how to put it there.
"""

import hashlib
import os
import re
import tempfile
from importlib import import_module
from pathlib import Path

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.storage import Location

KNOWN = {
    "gpt2": "openai-community/gpt2",
    "qwen": "Qwen/Qwen2-7B",
    "qwen2": "Qwen/Qwen2-7B",
    "llama3": "meta-llama/Meta-Llama-3-8B",
}
OF_TIKTOKEN = {"cl100k": "cl100k_base", "gpt-4": "cl100k_base", "o200k": "o200k_base", "gpt-4o": "o200k_base"}
_STORE = "https://openaipublic.blob.core.windows.net/encodings"


def found(path: Location) -> Location:
    """Return where the tokenizer is that a person names: the path itself, if it exists, else a file in a cache."""
    try:
        is_missing = isinstance(path, Path) and not path.exists()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; name a tokenizer's directory, or a run") from None
    return cached(str(path)) if is_missing else path


def cached(name: str) -> Path:
    """Return the file of a well-known name in the cache of tiktoken, or of OWNER/MODEL in that of transformers."""
    encoding = OF_TIKTOKEN.get(name, name)
    if encoding in OF_TIKTOKEN.values():
        file = tiktoken_file(encoding)
        if file.is_file():
            return file
        raise InputError(
            f"{name} is no path, and {encoding} is not in the cache of tiktoken ({file.parent}): "
            f"load it once with tiktoken.get_encoding({encoding!r}), or give a path"
        )
    if name not in KNOWN and not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise InputError(f"{name} does not exist: give a run, a tokenizer's directory or file, or one of {_names()}")
    return _file_of_transformers(name, KNOWN.get(name, name))


def tiktoken_file(encoding: str) -> Path:
    """Return where tiktoken keeps an encoding: a file named by the SHA-1 of the address that it came from."""
    named = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    directory = Path(tempfile.gettempdir()) / "data-gym-cache" if named is None else Path(named)
    return directory / hashlib.sha1(f"{_STORE}/{encoding}.tiktoken".encode(), usedforsecurity=False).hexdigest()


def encoding_of(path: Location) -> str | None:
    """Return the encoding of tiktoken whose file in its cache this is."""
    return next((one for one in sorted({*OF_TIKTOKEN.values()}) if path == tiktoken_file(one)), None)


def _names() -> str:
    return ", ".join([*KNOWN, *OF_TIKTOKEN])


def _file_of_transformers(name: str, model: str) -> Path:
    """Return tokenizer.json of a model in the cache of transformers; InputError if it is not there."""
    try:
        find = import_module("huggingface_hub").try_to_load_from_cache
    except ImportError:
        raise InputError(f"{name} does not exist; to find it in the cache of transformers, install that") from None
    try:
        file = find(model, "tokenizer.json")
    except ValueError:  # no name of a model
        file = None
    if isinstance(file, str):
        return Path(file)
    remedy = f"load it once with transformers.AutoTokenizer.from_pretrained({model!r}), or give a run directory, a"
    remedy += " tokenizer's directory or file"
    more = "" if "/" in model else f", or one of {_names()}"
    raise InputError(f"{name} is no path, and {model} is not in the cache of transformers: {remedy}{more}")
