"""Train byte-level BPE tokenizers on corpora larger than memory."""

__version__ = "0.1.0"
