"""Load a tokenizer from files of any format, by the names of the files.

They are accepted only if the ids will be exactly those of the files' own runtime. What is written: `export_formats`.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from bpe_pipeline.base.errors import InputError, OtherKindError
from bpe_pipeline.run.directory import RUN
from bpe_pipeline.storage import Location, RemoteError, names_in
from bpe_pipeline.tokenizer.formats.huggingface import MODEL_NAME
from bpe_pipeline.tokenizer.formats.rank_lists import is_rank_file, load_ranks
from bpe_pipeline.tokenizer.formats.read_gpt2 import load_gpt2
from bpe_pipeline.tokenizer.formats.read_huggingface import load_huggingface
from bpe_pipeline.tokenizer.formats.well_known import encoding_of, found
from bpe_pipeline.tokenizer.model import Model

_PAIR = ("vocab.json", "merges.txt")
_RANKS = ("*.tiktoken", "*.model", "tekken*.json")  # of tiktoken, of Meta's code, and Mistral's
_UNREAD = {
    "*.gguf": "a GGUF file, which this package writes and does not read: name the tokenizer.json that it was made from",
    "*.model": "a SentencePiece model, which only `report --compare` reads: this package has byte-level BPE",
    "*vocab.txt": "a WordPiece vocabulary, as BERT's, which no command reads: this package has byte-level BPE",
}
"""Files of tokenizers that other libraries load."""
PATTERNS = (*_PAIR, *_RANKS, *_UNREAD)
"""Names of files that are a vocabulary, next to tokenizer.json."""


def _load_pair(file: Location) -> Model:
    vocab_file, merges_file = (file.with_name(name) for name in _PAIR)
    return load_gpt2(vocab_file, merges_file)


_READERS: dict[str, Callable[[Location], Model]] = {
    **dict.fromkeys(_PAIR, _load_pair),
    **dict.fromkeys(_RANKS, load_ranks),
    "*": load_huggingface,
}


def named_as(name: str, patterns: Iterable[str]) -> bool:
    """Whether a file's name is one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _reader_of(file: Location) -> Callable[[Location], Model]:
    return next(reader for pattern, reader in _READERS.items() if fnmatchcase(file.name, pattern))


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
    """Load a tokenizer directory (tokenizer.json, or vocab.json with merges.txt), a file of it, a run directory, or a
    well-known tokenizer by its name."""
    path = found(path)
    try:
        return load_ranks(path) if encoding_of(path) else _load(tokenizer_path(path))
    except RemoteError:
        raise
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}; name a readable tokenizer directory, tokenizer.json, "
            "or run"
        ) from None


def _load(path: Location) -> Model:
    file = _file_in(path) if path.is_dir() else path
    if not file.exists():
        raise InputError(_missing(file))
    unread = next((what for pattern, what in _UNREAD.items() if fnmatchcase(file.name, pattern)), None)
    if unread is not None and not (named_as(file.name, _RANKS) and is_rank_file(file)):
        found = f"{file} is" if file == path else f"{path} has no {MODEL_NAME}, but {file.name}:"
        raise OtherKindError(f"{found} {unread}")
    return _reader_of(file)(file)


def _file_in(home: Location) -> Location:
    """Return the file of a directory that is to be loaded; OtherKindError if it has none, or several rank files."""
    if (home / MODEL_NAME).exists():
        return home / MODEL_NAME
    if all((home / name).exists() for name in _PAIR):
        return home / _PAIR[0]
    names = sorted(names_in(home))
    ranks, others = ([name for name in names if named_as(name, listed)] for listed in (_RANKS, tuple(_UNREAD)))
    if len(ranks) == 1 or others:
        return home / (ranks if len(ranks) == 1 else others)[0]
    for run in (home, home.parent):
        if (run / RUN.manifest).exists():
            raise OtherKindError(f"{run} has no tokenizer yet: bpe-pipeline merge {run}")
    raise OtherKindError(_missing(home / MODEL_NAME, f"; of {', '.join(ranks)} name one" if ranks else ""))


def _missing(file: Location, choice: str = "") -> str:
    return (
        f"{file} does not exist: give a run directory, a tokenizer's directory (tokenizer.json, or vocab.json and "
        f"merges.txt), or its tokenizer.json{choice}"
    )
