"""The interfaces of other code over the `Tokenizer`: Llama 3's, GPT-2's, and formats of dialogs."""

from typing import Any

from bpe_pipeline.compat.chat import ChatFormat as ChatFormat
from bpe_pipeline.compat.chat import ChatMLFormat as ChatMLFormat
from bpe_pipeline.compat.gpt2 import GPT2Tokenizer as GPT2Tokenizer
from bpe_pipeline.compat.llama3 import Llama3Tokenizer as Llama3Tokenizer
from bpe_pipeline.run.extensions import extensions

_OWN = ("ChatFormat", "ChatMLFormat", "GPT2Tokenizer", "Llama3Tokenizer")


def __getattr__(name: str) -> Any:
    """Import what an extension brings as `compat.NAME`."""
    functions = {key: imported for extension in extensions() for key, imported in extension.functions.items()}
    if name == "__all__":
        return [*_OWN, *(key.removeprefix("compat.") for key in functions if key.startswith("compat."))]
    if (imported := functions.get(f"compat.{name}")) is None:
        raise AttributeError(f"module 'bpe_pipeline.compat' has no attribute {name!r}")
    return imported()
