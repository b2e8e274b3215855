"""Versions of the files in a run directory; a reader refuses those that it does not know."""

RUN_FORMAT = 1  # run.json
COUNTER_FORMAT = 1  # counters; part of what counting depends on
