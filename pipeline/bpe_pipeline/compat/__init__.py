"""The interfaces of other code over the `Tokenizer`: Llama 3's, GPT-2's, and formats of dialogs."""

from bpe_pipeline.compat.chat import ChatFormat, ChatMLFormat
from bpe_pipeline.compat.gpt2 import GPT2Tokenizer
from bpe_pipeline.compat.llama3 import Llama3Tokenizer

__all__ = ["ChatFormat", "ChatMLFormat", "GPT2Tokenizer", "Llama3Tokenizer"]
