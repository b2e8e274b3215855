"""Errors, events, log, units and the machine: what every other package may import. Knows nothing of text or stores."""
