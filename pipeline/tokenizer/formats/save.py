"""Tokenizer files for other runtimes: `EXPORTS[name](model, directory)` writes one format and returns its paths.

The same tokenizer gives the same bytes. A format whose runtime would produce other ids raises ExportRefusedError with
the reason and writes nothing.
"""

from collections.abc import Callable

from pipeline.storage import Location
from pipeline.tokenizer.formats import gguf
from pipeline.tokenizer.formats.gguf import GGUF_NAME, export_gguf
from pipeline.tokenizer.formats.gpt2_files import export_gpt2
from pipeline.tokenizer.formats.huggingface import GENERATION_NAME, export_huggingface
from pipeline.tokenizer.formats.tiktoken_ranks import export_tiktoken
from pipeline.tokenizer.model import Model

EXPORTS: dict[str, Callable[[Model, Location], list[Location]]] = {
    "hf": export_huggingface,
    "gpt2": export_gpt2,
    "tiktoken": export_tiktoken,
    "gguf": export_gguf,
}

FILE_NAMES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt"),
    *("tokenizer.tiktoken", "tiktoken_encoding.py", GENERATION_NAME, GGUF_NAME),
)
"""Every file that an export may write."""


def default_formats() -> list[str]:
    """Return the formats that are written where none are named: all whose package is installed."""
    return [name for name in EXPORTS if name != "gguf" or gguf.can_write()]
