"""Tokenizer files for other runtimes: `FORMATS[name].write(model, directory)` writes one format and returns its paths.

The same tokenizer gives the same bytes. A format whose runtime would produce other ids raises ExportRefusedError with
the reason and writes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.storage import Location
from pipeline.tokenizer.formats import gguf
from pipeline.tokenizer.formats.gguf import GGUF_NAME, export_gguf
from pipeline.tokenizer.formats.gpt2_files import export_gpt2
from pipeline.tokenizer.formats.huggingface import EDITABLE, MODEL_NAME, export_huggingface
from pipeline.tokenizer.formats.tiktoken_ranks import RANKS_NAME, SNIPPET_NAME, export_tiktoken
from pipeline.tokenizer.model import Model


@dataclass(frozen=True)
class Format:
    """The files of a runtime. limit: on which texts it fails or differs if the pattern leaves superwords, or empty."""

    write: Callable[[Model, Location], list[Location]]
    files: tuple[str, ...]  # that it may write
    limit: str = ""


FORMATS = {
    "hf": Format(export_huggingface, (MODEL_NAME, *EDITABLE)),
    "gpt2": Format(export_gpt2, ("vocab.json", "merges.txt")),
    "tiktoken": Format(
        export_tiktoken,
        (RANKS_NAME, SNIPPET_NAME),
        "tiktoken's engine raises on long stretches of text (some 100,000 characters) that the pattern of superwords "
        "leaves",
    ),
    "gguf": Format(
        export_gguf,
        (GGUF_NAME,),
        "llama.cpp cuts numbers with digits other than 0-9 at other positions, and a number of 30,000 digits crashes "
        "it",
    ),
}
FILE_NAMES = tuple(name for one in FORMATS.values() for name in one.files)


def default_formats() -> list[str]:
    """Return the formats that are written where none are named: all whose package is installed."""
    return [name for name in FORMATS if name != "gguf" or gguf.can_write()]
