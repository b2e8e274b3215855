"""Errors, events, log, units and the machine: what every room may import. Knows nothing of text or stores."""
