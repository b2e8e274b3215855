"""Read tokenizer files into a `Model`: accepted only if the ids will be exactly those of the file's own runtime."""

from pipeline.base.errors import InputError
from pipeline.storage import Location
from pipeline.tokenizer.formats.gpt2_files import load_gpt2
from pipeline.tokenizer.formats.huggingface import load_huggingface
from pipeline.tokenizer.model import Model


def load_model(path: Location) -> Model:
    """Load a tokenizer directory (tokenizer.json, or vocab.json with merges.txt), or the tokenizer.json itself."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if path.suffix == ".tiktoken" and path.is_file():
        raise InputError(
            f"{path} is a tiktoken rank file, which does not say its pattern and special tokens: load it with "
            "Tokenizer.from_tiktoken_file(path, pattern=..., special_tokens={...})"
        )
    if not file.exists() and (path / "vocab.json").exists() and (path / "merges.txt").exists():
        return load_gpt2(path / "vocab.json", path / "merges.txt")
    if path.name in ("vocab.json", "merges.txt") and path.is_file():
        return load_gpt2(path.with_name("vocab.json"), path.with_name("merges.txt"))
    if not file.exists():
        raise InputError(
            f"{file} does not exist: give a tokenizer's directory (tokenizer.json, or vocab.json and merges.txt), or "
            "its tokenizer.json"
        )
    return load_huggingface(file)
