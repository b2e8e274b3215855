"""Read tokenizer files into a `Model`: accepted only if the ids will be exactly those of the file's own runtime.

A file is untrusted: anything that is missing, of the wrong type, out of range or not understood raises InputError
naming the file, the place in it and the reason.
"""

from pipeline.errors import InputError, StorageError
from pipeline.load.huggingface import load_huggingface
from pipeline.model import Model
from pipeline.storage import Location, RemoteError

__all__ = ["load_model"]


def load_model(path: Location) -> Model:
    """Load a tokenizer directory, or the tokenizer.json itself."""
    try:
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.exists():
            raise InputError(f"{file} does not exist: give a tokenizer's directory or its tokenizer.json")
        return load_huggingface(file)
    except RemoteError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from None
