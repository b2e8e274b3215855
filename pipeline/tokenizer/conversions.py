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


def to_tiktoken(model: Model) -> Any:
    """Make a `tiktoken.Encoding`."""
    tiktoken = installed("tiktoken")
    ranks = {token: id_ for id_, token in model.vocabulary.tokens.items()}
    return tiktoken.Encoding(mergeable_ranks=ranks, **encoding_arguments(model))


def to_tokenizers(model: Model) -> Any:
    """Make a `tokenizers.Tokenizer`."""
    tokenizers = installed("tokenizers")
    with tempfile.TemporaryDirectory() as directory:
        export_huggingface(model, Path(directory))
        return tokenizers.Tokenizer.from_file(f"{directory}/tokenizer.json")


def to_transformers(model: Model) -> Any:
    """Make a `transformers.PreTrainedTokenizerFast`."""
    transformers = installed("transformers")
    with tempfile.TemporaryDirectory() as directory:
        export_huggingface(model, Path(directory))
        loaded = transformers.PreTrainedTokenizerFast.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
    loaded.name_or_path = loaded.init_kwargs["name_or_path"] = ""  # rather than a directory that is gone
    return loaded
