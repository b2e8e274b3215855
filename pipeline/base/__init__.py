"""Errors, events, log, units, the machine and the version: what every room may import."""
