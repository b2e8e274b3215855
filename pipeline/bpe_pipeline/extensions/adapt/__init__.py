"""Extension: a tokenizer of somebody's, extended or pruned by counts."""
