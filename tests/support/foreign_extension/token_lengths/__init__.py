"""An extension of bpe-pipeline: how long tokens are."""
