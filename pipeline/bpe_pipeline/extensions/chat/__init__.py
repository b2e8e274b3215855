"""Extension: chat data: rows -> conversations -> ids and labels -> rows of fixed length, as LLaMA-Factory makes
them."""
