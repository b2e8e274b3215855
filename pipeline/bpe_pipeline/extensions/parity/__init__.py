"""Extension: one vocabulary from the counts of several languages, which take turns in choosing its merges."""

KIND = "languages"  # of the source of a run whose merges languages choose
