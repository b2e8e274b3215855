"""A tokenizer as an object of another library, with the same ids; ExportRefusedError for others."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bpe_pipeline.tokenizer.chat_templates import installed
from bpe_pipeline.tokenizer.formats import huggingface
from bpe_pipeline.tokenizer.formats.tiktoken_ranks import encoding_arguments
from bpe_pipeline.tokenizer.model import Model


def of_whole_texts(theirs: Any) -> Any:
    """Return a `tokenizers.Tokenizer` without the truncation and padding of its file, as transformers has it."""
    if hasattr(theirs, "no_truncation"):
        theirs.no_truncation()
        theirs.no_padding()
    else:  # from version 1.0 on
        theirs.truncation = theirs.padding = None
    return theirs


@contextmanager
def _exported(model: Model) -> Iterator[Path]:
    """Write the files of transformers into a directory, which is removed at the end."""
    with tempfile.TemporaryDirectory() as directory:
        huggingface.export(model, Path(directory))
        yield Path(directory)


def _loaded_as(cls: Any, model: Model) -> Any:
    """Return the tokenizer of a class of transformers."""
    with _exported(model) as directory:
        loaded = cls.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    loaded.name_or_path = loaded.init_kwargs["name_or_path"] = ""  # rather than a directory that is gone
    return loaded


class Conversions:
    """The tokenizer's methods that make objects of other libraries."""

    model: Model

    def to_tiktoken(self) -> Any:
        """Return the tokenizer as an object of tiktoken, with the same ids.

        >>> tokenizer.to_tiktoken().encode("lower")
        [257, 258]

        Returns:
            A `tiktoken.Encoding`.

        Raises:
            UsageError: tiktoken is not installed.
            ExportRefusedError: the library would produce other ids.
        """
        tiktoken = installed("tiktoken")
        ranks = {token: id_ for id_, token in self.model.vocabulary.tokens.items()}
        return tiktoken.Encoding(mergeable_ranks=ranks, **encoding_arguments(self.model))

    def to_tokenizers(self) -> Any:
        """Return the tokenizer as an object of tokenizers, with the same ids.

        >>> tokenizer.to_tokenizers().encode("lower").ids
        [257, 258]

        Returns:
            A `tokenizers.Tokenizer`.

        Raises:
            UsageError: tokenizers is not installed.
            ExportRefusedError: the library would produce other ids.
        """
        tokenizers = installed("tokenizers")
        with _exported(self.model) as directory:
            converted = tokenizers.Tokenizer.from_file(f"{directory}/tokenizer.json")
        return of_whole_texts(converted)

    def to_transformers(self) -> Any:
        """Return the tokenizer as an object of transformers, with the same ids, pad token and chat template.

        >>> tokenizer.to_transformers()("lower").input_ids
        [257, 258]

        Returns:
            A `transformers.PreTrainedTokenizerFast`.

        Raises:
            UsageError: transformers is not installed.
            ExportRefusedError: the library would produce other ids.
        """
        return _loaded_as(installed("transformers").PreTrainedTokenizerFast, self.model)

    def as_transformers(self) -> Any:
        """Return an object of transformers that encodes in native threads, for training code; results are the same.

        >>> tokenizer.as_transformers()(["lower", "low"]).input_ids
        [[257, 258], [257]]

        Returns:
            A `transformers.PreTrainedTokenizerFast`.

        Raises:
            UsageError: transformers is not installed.
            ExportRefusedError: the library would produce other ids.
        """
        installed("transformers")
        from bpe_pipeline.tokenizer.for_transformers import NativeTokenizer

        return _loaded_as(NativeTokenizer, self.model).attach(self.model)
