"""The version of counters, which readers refuse if they do not know it."""

COUNTER_FORMAT = 1  # counters; part of what counting depends on
