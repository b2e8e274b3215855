"""A tokenizer as an object of another library, with the same ids; ExportRefusedError where that library has others."""

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.tokenizer.formats.huggingface import export_huggingface
from pipeline.tokenizer.formats.tiktoken_ranks import encoding_arguments
from pipeline.tokenizer.model import Model


def installed(name: str) -> Any:
    """Import another library; UsageError where it cannot be imported."""
    try:
        return import_module(name)
    except ImportError as reason:
        raise UsageError(f"{name} cannot be imported ({reason}): pip install {name}") from None


class Conversions:
    """The tokenizer's methods that make objects of other libraries."""

    model: Model

    def to_tiktoken(self) -> Any:
        """Return the tokenizer as one of tiktoken, with the same ids.

        >>> tokenizer.to_tiktoken().encode("lower")
        [257, 258]

        Returns:
            A `tiktoken.Encoding`.

        Raises:
            UsageError: tiktoken is not installed.
            ExportRefusedError: tiktoken would produce other ids.
        """
        tiktoken = installed("tiktoken")
        ranks = {token: id_ for id_, token in self.model.vocabulary.tokens.items()}
        return tiktoken.Encoding(mergeable_ranks=ranks, **encoding_arguments(self.model))

    def to_tokenizers(self) -> Any:
        """Return the tokenizer as one of tokenizers, with the same ids.

        >>> tokenizer.to_tokenizers().encode("lower").ids
        [257, 258]

        Returns:
            A `tokenizers.Tokenizer`.

        Raises:
            UsageError: tokenizers is not installed.
            ExportRefusedError: tokenizers would produce other ids.
        """
        tokenizers = installed("tokenizers")
        with tempfile.TemporaryDirectory() as directory:
            export_huggingface(self.model, Path(directory))
            return tokenizers.Tokenizer.from_file(f"{directory}/tokenizer.json")

    def to_transformers(self) -> Any:
        """Return the tokenizer as one of transformers: with the same ids, pad token and chat template.

        >>> tokenizer.to_transformers()("lower").input_ids
        [257, 258]

        Returns:
            A `transformers.PreTrainedTokenizerFast`.

        Raises:
            UsageError: transformers is not installed.
            ExportRefusedError: transformers would produce other ids.
        """
        transformers = installed("transformers")
        with tempfile.TemporaryDirectory() as directory:
            export_huggingface(self.model, Path(directory))
            loaded = transformers.PreTrainedTokenizerFast.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False
            )
        loaded.name_or_path = loaded.init_kwargs["name_or_path"] = ""  # rather than a directory that is gone
        return loaded
