"""Train byte-level BPE tokenizers on corpora larger than memory: exact, parallel, resumable.

>>> import pipeline
>>> tokenizer = pipeline.train("corpus/*.txt", output="runs/a", vocab_size=32_000)
>>> tokenizer.decode(tokenizer.encode("Hello"))
'Hello'

Everything public is imported when it is first used, so that `import pipeline` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.chat import ChatFormat as ChatFormat
    from pipeline.chat import ChatMLFormat as ChatMLFormat
    from pipeline.errors import PipelineError as PipelineError
    from pipeline.gpt2 import GPT2Tokenizer as GPT2Tokenizer
    from pipeline.llama3 import Llama3Tokenizer as Llama3Tokenizer
    from pipeline.tokenizer import Tokenizer as Tokenizer
    from pipeline.training import train as train

__version__ = "0.1.0"
__all__ = [
    "ChatFormat",
    "ChatMLFormat",
    "GPT2Tokenizer",
    "Llama3Tokenizer",
    "PipelineError",
    "Tokenizer",
    "__version__",
    "train",
]

_HOMES = {
    "ChatFormat": "pipeline.chat",
    "ChatMLFormat": "pipeline.chat",
    "GPT2Tokenizer": "pipeline.gpt2",
    "Llama3Tokenizer": "pipeline.llama3",
    "PipelineError": "pipeline.errors",
    "Tokenizer": "pipeline.tokenizer",
    "train": "pipeline.training",
}


def __getattr__(name: str) -> Any:
    if name == "_core":
        return _native_core()
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pipeline' has no attribute {name!r}")


def _native_core() -> Any:
    try:
        return import_module("pipeline._core")
    except ImportError as error:
        raise ImportError(
            "the native core of bpe-pipeline is not built here "
            f"({error}); install the package with `pip install .` in the project's directory "
            "(it needs a C++20 compiler: `apt install g++`, `dnf install gcc-c++` or `xcode-select --install`) "
            "and run the installed `bpe-pipeline`"
        ) from None
