"""Read and write the tokenizer files of other libraries."""
