"""Versions of the files in a run directory; a reader refuses those that it does not know."""

RUN_FORMAT = 3  # run.json: 3 cuts compressed files between frames, which a release that reads 2 would read whole
OLDER_RUN_FORMATS = (2,)
COUNTER_FORMAT = 1  # counters; part of what counting depends on
