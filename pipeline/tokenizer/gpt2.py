"""The interface of GPT-2's tokenizers over vocab.json and merges.txt.

Ids come as lists, numpy arrays or torch tensors, as the caller asks, and any of them is decoded; numpy and torch are
the caller's, imported when asked for.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from os import PathLike
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.storage import Remote, named
from pipeline.tokenizer.formats.gpt2_files import load_gpt2
from pipeline.tokenizer.tokenizer import Tokenizer

_LIBRARIES = {"list": None, "numpy": "numpy", "torch": "torch"}


class GPT2Tokenizer:
    """Encode and decode with GPT-2 style files.

    directory: what holds vocab.json and merges.txt. special_tokens: texts in vocab.json to recognise; None: those
    that special_tokens_map.json names, or else the tokens that no merge makes. tokenizer: the `Tokenizer` behind it.
    """

    def __init__(self, directory: str | PathLike[str] | Remote, *, special_tokens: Sequence[str] | None = None) -> None:
        place = named(directory)
        model = load_gpt2(place / "vocab.json", place / "merges.txt", special_tokens)
        self.tokenizer = Tokenizer.from_model(model)

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.tokenizer.vocab_size

    def encode(self, text: str, *, return_type: str = "list") -> Any:
        """Return the ids of a text; return_type: "list", "numpy" (int64) or "torch" (int64)."""
        return _given_as(self.tokenizer.encode(text), return_type)

    def encode_batch(self, texts: Iterable[str], num_threads: int = 4, *, return_type: str = "list") -> list[Any]:
        """Return the ids of each of `texts`, in order, by up to `num_threads` threads; return_type: as in `encode`."""
        rows = self.tokenizer.encode_batch(texts, num_threads=num_threads)
        return [_given_as(ids, return_type) for ids in rows]

    def tokenize(self, text: str) -> list[str]:
        """Return the text of each token as vocab.json has it, in the byte alphabet: " low" -> "Ġlow"."""
        texts = self.tokenizer.vocabulary.texts
        specials = {id_: special for special, id_ in self.tokenizer.special_tokens.items()}
        return [texts[id_] if id_ in texts else specials[id_] for id_ in self.tokenizer.encode(text)]

    def decode(self, ids: Any) -> str:
        """Return the text that ids stand for (a list, an array or a tensor); invalid UTF-8 becomes U+FFFD."""
        return self.tokenizer.decode([int(ids)] if getattr(ids, "ndim", 1) == 0 else ids)


def _given_as(ids: list[int], return_type: str) -> Any:
    if return_type not in _LIBRARIES:
        raise UsageError(f"return_type is {return_type!r}: give one of {', '.join(_LIBRARIES)}")
    name = _LIBRARIES[return_type]
    if name is None:
        return ids
    try:
        library = import_module(name)
    except ImportError:
        raise UsageError(f"return_type is {return_type!r}, but {name} is not installed: `pip install {name}`") from None
    make = library.array if name == "numpy" else library.tensor
    return make(ids, dtype=library.int64)
