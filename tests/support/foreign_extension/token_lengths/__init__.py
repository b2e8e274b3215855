"""An extension of bpe-pipeline: how long tokens are, and merges that make none longer than a limit."""
