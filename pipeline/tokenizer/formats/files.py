"""Tokenizer files of all formats: `load_model` reads them, `FORMATS[name].write(model, directory)` writes them.

What is read is accepted only if the ids will be exactly those of the file's own runtime. A format whose runtime would
produce other ids raises ExportRefusedError with the reason and writes nothing; the same tokenizer gives the same bytes.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from pipeline.base.errors import InputError, OtherKindError
from pipeline.storage import Location, RemoteError, names_in
from pipeline.tokenizer.formats.fields import GGUF_NAME, RANKS_NAME, SNIPPET_NAME
from pipeline.tokenizer.formats.huggingface import EDITABLE, MODEL_NAME, load_huggingface
from pipeline.tokenizer.model import Model

_UNREAD = {
    ".tiktoken": "a tiktoken rank file, which does not say its pattern and special tokens: load it with "
    "Tokenizer.from_tiktoken_file(path, pattern=..., special_tokens={...})",
    ".gguf": "a GGUF file, which this package writes and does not read: name the tokenizer.json that it was made from",
    ".model": "a SentencePiece model, which only `report --compare` reads: this package has byte-level BPE",
    "vocab.txt": "a WordPiece vocabulary, which this package does not read: it has byte-level BPE",
}
"""Files of tokenizers that other libraries load, by how their names end."""


def tokenizer_home(path: Location) -> Location:
    """Return the tokenizer directory that a path names: itself, that of a run, or that of a file in it."""
    nested = path / "tokenizer"
    if not (path / MODEL_NAME).exists() and (nested / MODEL_NAME).exists():
        return nested
    return path.parent if path.is_file() else path


def tokenizer_path(path: Location) -> Location:
    """Return what to load for a path: a file itself, otherwise the tokenizer directory."""
    home = tokenizer_home(path)
    return path if home == path.parent else home


def load_model(path: Location) -> Model:
    """Load a tokenizer directory (tokenizer.json, or vocab.json with merges.txt), a file of it, or a run directory."""
    try:
        return _load(tokenizer_path(path))
    except RemoteError:
        raise
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}; name a readable tokenizer directory, tokenizer.json, "
            "or run"
        ) from None


def _load(path: Location) -> Model:
    file = path / MODEL_NAME if path.is_dir() else path
    if path.is_file() and (unread := _unread(path.name)):
        raise OtherKindError(f"{path} is {unread}")
    home = path.parent if path.name in ("vocab.json", "merges.txt") and path.is_file() else path
    pair = home / "vocab.json", home / "merges.txt"
    if home != path or (not file.exists() and all(one.exists() for one in pair)):
        model: Model = FORMATS["gpt2"].module.load_gpt2(*pair)
        return model
    if not file.exists():
        others = [name for name in sorted(names_in(path)) if _unread(name)] if path.is_dir() else []
        if others:
            raise OtherKindError(f"{path} has no {MODEL_NAME}, but {others[0]}: {_unread(others[0])}")
        raise InputError(
            f"{file} does not exist: give a run directory, a tokenizer's directory (tokenizer.json, or vocab.json and "
            "merges.txt), or its tokenizer.json; names of models elsewhere are not looked up"
        )
    return load_huggingface(file)


def _unread(name: str) -> str | None:
    return next((what for ending, what in _UNREAD.items() if name.endswith(ending)), None)


@dataclass(frozen=True)
class Format:
    """The files of a runtime. limit: on which texts it fails or differs if the pattern leaves superwords, or empty."""

    home: str  # the module next to this one that writes them, imported when it is used
    files: tuple[str, ...]  # that it may write
    limit: str = ""
    package: str = ""  # that has to be installed

    @property
    def module(self) -> ModuleType:
        """The module of this format."""
        return import_module(f"pipeline.tokenizer.formats.{self.home}")

    def write(self, model: Model, directory: Location) -> list[Location]:
        """Write the files into a directory."""
        written: list[Location] = self.module.export(model, directory)
        return written


FORMATS = {
    "hf": Format("huggingface", (MODEL_NAME, *EDITABLE)),
    "gpt2": Format("gpt2_files", ("vocab.json", "merges.txt")),
    "tiktoken": Format(
        "tiktoken_ranks",
        (RANKS_NAME, SNIPPET_NAME),
        "tiktoken's engine raises on long stretches of text (some 100,000 characters) that the pattern of superwords "
        "leaves",
    ),
    "gguf": Format(
        "gguf",
        (GGUF_NAME,),
        "llama.cpp cuts numbers with digits other than 0-9 at other positions, and a number of 30,000 digits crashes "
        "it",
        package="gguf",
    ),
}
FILE_NAMES = tuple(name for one in FORMATS.values() for name in one.files)


def default_formats() -> list[str]:
    """Return the formats that are written where none are named: all whose package is installed."""
    return [name for name, one in FORMATS.items() if not one.package or find_spec(one.package)]
