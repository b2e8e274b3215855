"""Guest: one vocabulary from the counts of several languages, which take turns in choosing its merges."""
