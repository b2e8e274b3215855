"""Versions of the files in a run directory; a reader refuses any other."""

RUN_FORMAT = 2  # run.json
COUNTER_FORMAT = 1  # counters; part of what counting depends on
