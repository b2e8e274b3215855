"""The corpus: what to read, and where to cut it. Knows nothing of tokens."""
