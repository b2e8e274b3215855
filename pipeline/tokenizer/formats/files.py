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
    ".gguf": "a GGUF file, which this package writes and does not read: name the tokenizer.json that it was made from",
    ".model": "a SentencePiece model, which only `report --compare` reads: this package has byte-level BPE",
    "vocab.txt": "a WordPiece vocabulary, as BERT's, which no command reads: this package has byte-level BPE",
}
"""Files of tokenizers that other libraries load, by how their names end."""

_RANKS = (".tiktoken", ".model")  # how names of rank files end; of SentencePiece's, too


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
    home = path.parent if path.name in ("vocab.json", "merges.txt") and path.is_file() else path
    pair = home / "vocab.json", home / "merges.txt"
    if home != path or (not file.exists() and all(one.exists() for one in pair)):
        model: Model = FORMATS["gpt2"].module.load_gpt2(*pair)
        return model
    if not file.exists():
        names = sorted(names_in(path)) if path.is_dir() else []
        ranked, others = list(filter(_holds_ranks, names)), list(filter(_unread, names))
        if len(ranked) == 1 or others:
            return _load_other(path / (ranked if len(ranked) == 1 else others)[0], f"{path} has no {MODEL_NAME}, but ")
        several = f"; of {', '.join(ranked)} name one" if ranked else ""
        raise (InputError if path == file else OtherKindError)(
            f"{file} does not exist: give a run directory, a tokenizer's directory (tokenizer.json, or vocab.json and "
            f"merges.txt), or its tokenizer.json{several}; names of models elsewhere are not looked up"
        )
    return _load_other(file, "") if _holds_ranks(file.name) or _unread(file.name) else load_huggingface(file)


def _load_other(file: Location, found: str) -> Model:
    """Load a list of ranks; OtherKindError for the file of another kind of tokenizer."""
    if _holds_ranks(file.name):
        ranks = import_module("pipeline.tokenizer.formats.rank_lists")
        if file.suffix == ".json" or not file.name.endswith(".model") or ranks.is_rank_file(file):
            model: Model = ranks.load_ranks(file)
            return model
    raise OtherKindError(f"{found}{file.name if found else file}{':' if found else ' is'} {_unread(file.name)}")


def _holds_ranks(name: str) -> bool:
    """Whether a file may hold a list of ranks, by its name: of tiktoken, of Meta's code, or Mistral's tekken.json."""
    return name.endswith(_RANKS) or (name.startswith("tekken") and name.endswith(".json"))


def document_of(path: Location) -> Location | None:
    """Return the tokenizer.json that `load_model` reads for a path, if it reads one."""
    file = tokenizer_path(path)
    file = file / MODEL_NAME if file.is_dir() else file
    other = file.name in ("vocab.json", "merges.txt") or _holds_ranks(file.name)
    return file if file.exists() and not other else None


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
