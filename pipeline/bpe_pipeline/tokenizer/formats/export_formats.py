"""The formats that are exported, by name: `FORMATS[name].write(model, directory)` writes the files of a runtime.

A format whose runtime would produce other ids raises ExportRefusedError with the reason and writes nothing; the same
tokenizer gives the same bytes. What reads files is not imported here, so that training does not load it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.formats import gguf, gpt2_files, huggingface, tiktoken_ranks, token_bytes
from bpe_pipeline.tokenizer.formats.fields import GGUF_NAME, RANKS_NAME, SNIPPET_NAME
from bpe_pipeline.tokenizer.model import Model


@dataclass(frozen=True)
class Format:
    """The files of a runtime, and what writes them into a directory and returns their paths."""

    write: Callable[[Model, Location], list[Location]]
    files: tuple[str, ...]
    """Names of all that it may write."""
    limit: str = ""
    """On which texts the runtime fails or differs if the pattern leaves superwords."""
    package: str = ""
    """What has to be installed to write them."""
    only_named: bool = False
    """Whether they are not written by default: they are no tokenizer."""


FORMATS = {
    "hf": Format(huggingface.export, (huggingface.MODEL_NAME, *huggingface.EDITABLE)),
    "gpt2": Format(gpt2_files.export, ("vocab.json", "merges.txt")),
    "tiktoken": Format(
        tiktoken_ranks.export,
        (RANKS_NAME, SNIPPET_NAME),
        "tiktoken's engine raises on long stretches of text (some 100,000 characters) that the pattern of superwords "
        "leaves",
    ),
    "gguf": Format(
        gguf.export,
        (GGUF_NAME,),
        "llama.cpp splits numbers with digits other than 0-9 at other positions, and a number of 30,000 digits crashes "
        "it",
        package="gguf",
    ),
    "token-bytes": Format(token_bytes.export, (token_bytes.NAME,), only_named=True),
}
FILE_NAMES = tuple(name for format_ in FORMATS.values() for name in format_.files)


def default_formats() -> list[str]:
    """Return the formats that are written where none are named: all whose package is installed."""
    named = [(name, format_.package) for name, format_ in FORMATS.items() if not format_.only_named]
    return [name for name, package in named if not package or find_spec(package)]
