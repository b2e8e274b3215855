"""From text to ids and back, and everyone's tokenizer files."""
