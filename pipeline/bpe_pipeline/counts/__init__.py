"""From chunks to counters, and from counters to one combined counter."""
