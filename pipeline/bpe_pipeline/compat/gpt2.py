"""The interface of GPT-2's tokenizers over vocab.json and merges.txt: ids as lists, numpy arrays or torch tensors."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from os import PathLike
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.storage import Remote, named
from bpe_pipeline.tokenizer.arguments import special_texts
from bpe_pipeline.tokenizer.formats.read_gpt2 import load_gpt2
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

_RETURN_TYPES = ("list", "numpy", "torch")


class GPT2Tokenizer:
    """Encode and decode with GPT-2 style files. `tokenizer` is the `Tokenizer` that does the work.

    >>> from bpe_pipeline.compat import GPT2Tokenizer
    >>> gpt2 = GPT2Tokenizer("my-tokenizer")
    >>> gpt2.encode("lower")
    [257, 258]

    Args:
        directory: of vocab.json and merges.txt.
        special_tokens: texts in vocab.json to recognise; None: those of special_tokens_map.json, or without that
            file the tokens that no merge makes.

    Raises:
        InputError: a file is missing or damaged, or vocab.json lacks a special token.
        UsageError: a special token is empty, repeated or a single byte.
    """

    def __init__(self, directory: str | PathLike[str] | Remote, *, special_tokens: Sequence[str] | None = None) -> None:
        home = named(directory, "directory")
        listed = None if special_tokens is None else special_texts(special_tokens)
        self.tokenizer = Tokenizer.from_model(load_gpt2(home / "vocab.json", home / "merges.txt", listed))

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.tokenizer.vocab_size

    def encode(self, text: str, *, return_type: str = "list") -> Any:
        """Return the ids of a text; special tokens in it are recognised.

        >>> gpt2.encode("lower", return_type="numpy")
        array([257, 258])

        Args:
            text: with special tokens or without.
            return_type: "list", "numpy" (int64) or "torch" (int64).

        Returns:
            The ids.

        Raises:
            UsageError: `return_type` is unknown, or its library is not installed.
        """
        return _as_type(self.tokenizer.encode(text), return_type)

    def encode_batch(self, texts: Iterable[str], num_threads: int = 4, *, return_type: str = "list") -> list[Any]:
        """Return the ids of each text, encoded in parallel.

        >>> gpt2.encode_batch(["low", "er"])
        [[257], [258]]

        Args:
            texts: as in `encode`.
            num_threads: at most this many.
            return_type: as in `encode`.

        Returns:
            The ids.

        Raises:
            UsageError: `num_threads` is below 1, or as in `encode`.
        """
        return [_as_type(ids, return_type) for ids in self.tokenizer.encode_batch(texts, num_threads=num_threads)]

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text as in vocab.json.

        >>> gpt2.tokenize(" lower")
        ['Ġ', 'low', 'er']

        Args:
            text: as in `encode`.

        Returns:
            The tokens.
        """
        return [str(self.tokenizer.id_to_token(id_)) for id_ in self.tokenizer.encode(text)]

    def decode(self, ids: Any) -> str:
        """Return the text of ids; invalid UTF-8 becomes U+FFFD.

        >>> gpt2.decode([257, 258])
        'lower'

        Args:
            ids: a list, an array or a tensor; also one id in an array or tensor without dimensions.

        Returns:
            The text.

        Raises:
            InputError: an id is not in the vocabulary or not a whole number.
        """
        return self.tokenizer.decode([int(ids)] if getattr(ids, "ndim", 1) == 0 else ids)


def _as_type(ids: list[int], return_type: str) -> Any:
    if return_type not in _RETURN_TYPES:
        raise UsageError(f"return_type is {return_type!r}: give one of {', '.join(_RETURN_TYPES)}")
    if return_type == "list":
        return ids
    try:
        library = import_module(return_type)
    except ImportError:
        raise UsageError(
            f"return_type is {return_type!r}, but {return_type} is not installed: `pip install {return_type}`"
        ) from None
    return getattr(library, "array" if return_type == "numpy" else "tensor")(ids, dtype=library.int64)
