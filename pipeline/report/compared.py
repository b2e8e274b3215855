"""Tokenizers to compare with: ours, SentencePiece's `.model` files, and well-known ones in the cache of transformers.

Nothing is downloaded: a name that is not in the cache is an error that says how to put it there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from pipeline.base.errors import InputError
from pipeline.storage import Location
from pipeline.tokenizer.tokenizer import Tokenizer

KNOWN = {"gpt2": "openai-community/gpt2", "qwen2": "Qwen/Qwen2-7B", "llama3": "meta-llama/Meta-Llama-3-8B"}


@dataclass(frozen=True)
class Compared:
    """What is measured of a tokenizer."""

    encode_ordinary: Callable[[str], list[int]]
    vocab: dict[int, bytes]

    @property
    def vocab_size(self) -> int:
        """The number of ids."""
        return len(self.vocab)


def cached(name: str) -> Path:
    """Return the tokenizer.json of a well-known name, or of OWNER/MODEL, in the cache of transformers."""
    model = KNOWN.get(name, name)
    remedy = f"load it once with transformers.AutoTokenizer.from_pretrained({model!r}), or give a path"
    try:
        find = import_module("huggingface_hub").try_to_load_from_cache
    except ImportError:
        raise InputError(f"{name} does not exist; to find it in the cache of transformers, install that") from None
    try:
        found = find(model, "tokenizer.json")
    except ValueError:  # no name of a model
        found = None
    if not isinstance(found, str):
        raise InputError(f"{name} is no path, and {model} is not in the cache of transformers: {remedy}")
    return Path(found)


def load_compared(path: Location) -> Tokenizer | Compared:
    """Load a tokenizer, or a SentencePiece model by its suffix; InputError if it cannot be read."""
    if path.suffix != ".model":
        return Tokenizer.load(path)
    try:
        processor = import_module("sentencepiece").SentencePieceProcessor()
    except ImportError:
        raise InputError(f"{path} is read with the sentencepiece package: pip install sentencepiece") from None
    try:
        processor.LoadFromSerializedProto(path.read_bytes())
    except (OSError, RuntimeError) as reason:
        raise InputError(f"{path} is not a SentencePiece model: {reason}") from None
    vocab = {}
    for id_ in range(processor.GetPieceSize()):
        piece = processor.IdToPiece(id_)
        vocab[id_] = bytes([int(piece[3:5], 16)]) if processor.IsByte(id_) else piece.replace("\u2581", " ").encode()
    return Compared(processor.EncodeAsIds, vocab)
