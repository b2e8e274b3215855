"""From a corpus and a tokenizer to shards or arrays of ids, and back to text."""
