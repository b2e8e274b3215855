"""From a counter to the merge list and its vocabulary."""
