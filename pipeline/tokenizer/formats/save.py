"""Tokenizer files for other runtimes: one module a format writes what its runtime encodes with exactly as we do.

`EXPORTS[name](model, directory)` writes the files of a format and returns their paths. Files are written whole or not
at all and are the same byte for byte for the same tokenizer. A format whose runtime would produce other ids raises
ExportRefusedError with the reason and writes nothing.
"""

from collections.abc import Callable

from pipeline.storage import Location
from pipeline.tokenizer.formats.gpt2_files import export_gpt2
from pipeline.tokenizer.formats.huggingface import export_huggingface, write_model
from pipeline.tokenizer.formats.tiktoken_ranks import export_tiktoken
from pipeline.tokenizer.model import Model

EXPORTS: dict[str, Callable[[Model, Location], list[Location]]] = {
    "hf": export_huggingface,
    "gpt2": export_gpt2,
    "tiktoken": export_tiktoken,
}

FILE_NAMES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt"),
    *("tokenizer.tiktoken", "tiktoken_encoding.py"),
)
"""Every file that an export may write."""

__all__ = ["EXPORTS", "FILE_NAMES", "export_gpt2", "export_huggingface", "export_tiktoken", "write_model"]
