"""Extension: why a text has its ids, how tokenizers differ, what is wrong with one."""
